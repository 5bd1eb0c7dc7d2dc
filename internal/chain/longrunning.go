package chain

import (
	"strings"

	"github.com/kanzen-io/kanzen/internal/request"
)

// LongRunning says whether a request lasts as long as the client likes: it has
// no deadline, takes no place of those in flight, and shutting down does not
// wait for it.
func LongRunning(i *request.Info) bool {
	switch i.Verb {
	case "watch", "proxy":
		return true
	}
	if !i.IsResource {
		return strings.HasPrefix(i.Path, "/debug/pprof/")
	}
	switch i.Subresource {
	case "attach", "exec", "proxy", "log", "portforward":
		return true
	}
	return false
}
