// Package route knows which handler owns a path below /api and /apis: an
// immutable table from group, version and resource, swapped whole when
// something is added or taken away.
package route

import (
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Table maps resources to their handlers. It does not change once it is in use.
type Table map[schema.GroupVersionResource]http.Handler

// Router leads requests to the handler that the current table names.
type Router struct {
	table atomic.Pointer[Table]
	// Missing serves what no table entry owns.
	Missing http.Handler
}

// New makes a Router with a first table.
func New(t Table, missing http.Handler) *Router {
	r := &Router{Missing: missing}
	r.Swap(t)
	return r
}

// Swap puts another table in force for requests from now on.
func (r *Router) Swap(t Table) { r.table.Store(&t) }

// Knows says whether anything in the table is of a group.
func (r *Router) Knows(group string) bool {
	for gvr := range *r.table.Load() {
		if gvr.Group == group {
			return true
		}
	}
	return false
}

// ServeHTTP serves a resource request; request.InfoFrom says what it is about.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	i := request.InfoFrom(req.Context())
	if i != nil && i.IsResource {
		gvr := schema.GroupVersionResource{Group: i.Group, Version: i.Version, Resource: i.Resource}
		if h := (*r.table.Load())[gvr]; h != nil {
			h.ServeHTTP(w, req)
			return
		}
	}
	r.Missing.ServeHTTP(w, req)
}

// NotFound answers for paths that nobody owns, as upstream does: with a text.
func NotFound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte("404 page not found\n"))
}
