package extension

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/route"
)

// root serves what is behind the chain.
type root struct {
	resources, openapi, metrics, slis http.Handler
	discovery                         *discovery.Set
	health                            *debug.Health
}

// ServeHTTP is part of http.Handler.
func (h *root) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if i := request.InfoFrom(r.Context()); i != nil && i.IsResource {
		h.resources.ServeHTTP(w, r)
		return
	}
	switch {
	case path == "/api" || path == "/apis" || strings.HasPrefix(path, "/apis/"):
		found, err := h.discovery.Serve(w, r)
		if err != nil {
			engine.WriteError(w, r, schema.GroupVersion{}, err)
		} else if !found {
			route.NotFound(w)
		}
	case strings.HasPrefix(path, "/openapi/"):
		h.openapi.ServeHTTP(w, r)
	case path == "/metrics":
		h.metrics.ServeHTTP(w, r)
	case path == "/metrics/slis":
		h.slis.ServeHTTP(w, r)
	case path == "/version" && r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(version.Info()) // the client has gone
	case path == "/":
		if err := discovery.Paths(w, r, h.paths()); err != nil {
			engine.WriteError(w, r, schema.GroupVersion{}, err)
		}
	case h.health.Serve(w, r):
	default:
		route.NotFound(w)
	}
}

// paths are all that "/" lists.
func (h *root) paths() []string {
	out := append(h.discovery.Paths(), h.health.Paths()...)
	out = append(out, "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/version")
	slices.Sort(out)
	return slices.Compact(out)
}
