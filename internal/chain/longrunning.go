package chain

import (
	"strings"

	"github.com/kanzen-io/kanzen/internal/request"
)

// SnapshotPath is where a snapshot of the embedded etcd is served. It lasts as long as its bytes take.
const SnapshotPath = "/kanzen/snapshot"

// LongRunning reports whether a request may last as long as the client wants. Such a request has no deadline, does not
// count as in flight, and the shutdown does not wait for it.
func LongRunning(i *request.Info) bool {
	switch i.Verb {
	case "watch", "proxy":
		return true
	}
	if !i.IsResource {
		return strings.HasPrefix(i.Path, "/debug/pprof/") || i.Path == "/encryption" || i.Path == SnapshotPath
	}
	switch i.Subresource {
	case "attach", "exec", "proxy", "log", "portforward":
		return true
	}
	return false
}
