package chain

import "github.com/kanzen-io/kanzen/internal/request"

// LongRunning reports whether a request may last as long as the client wants. Such a request has no deadline, does not
// count as in flight, and the shutdown does not wait for it.
func LongRunning(i *request.Info) bool {
	switch i.Verb {
	case "watch", "proxy":
		return true
	}
	if !i.IsResource {
		return i.Page.LongRunning
	}
	switch i.Subresource {
	case "attach", "exec", "proxy", "log", "portforward":
		return true
	case "export", "import": // streams of objects
		return i.Group == "planes.kanzen.io" && i.Resource == "planes"
	}
	return false
}
