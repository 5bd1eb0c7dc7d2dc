package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/internal/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/catalog"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/console"
	"github.com/kanzen-io/kanzen/internal/debug"
	"github.com/kanzen-io/kanzen/internal/discovery"
	"github.com/kanzen-io/kanzen/internal/encryption"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/route"
	"github.com/kanzen-io/kanzen/internal/snapshot"
	"github.com/kanzen-io/kanzen/internal/version"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// root is the handler after the chain. It serves resources through the catalog,
// and the few paths that are not resources.
type root struct {
	catalog   *catalog.Live
	discovery documents
	openapi   http.Handler
	health    *debug.Health
	metrics   http.Handler
	slis      http.Handler
	issuer    *serviceaccount.Discovery // nil: the issuer cannot be discovered
	profiling bool
	flow      *flowcontrol.Controller // nil: requests are only counted
	zpages    *debug.Zpages
	version   version.Build
	verbosity *debug.Verbosity
	rewriter  *encryption.Rewriter
	snapshots *snapshot.Handler // nil: this control plane serves none
	console   *console.Console  // nil: there is none
}

func (h *root) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i := request.InfoFrom(r.Context()); i != nil && i.IsResource {
		h.catalog.ServeHTTP(w, r)
		return
	}
	h.serveOther(w, r)
}

func (h *root) serveOther(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case path == "/api" || path == "/apis" || strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/"):
		if s := h.catalog.Resolve(r.Context(), request.InfoFrom(r.Context())); s.Remote != nil {
			s.Remote.Handler.ServeHTTP(w, r)
			return
		}
		h.discovery.metrics.DiscoveryRequested(r)
		found, err := h.discovery.Get().Serve(w, r)
		if err != nil {
			engine.WriteError(w, r, schema.GroupVersion{}, err)
		} else if !found {
			route.NotFound(w)
		}
	case strings.HasPrefix(path, "/openapi/") && path != serviceaccount.JWKSPath:
		h.openapi.ServeHTTP(w, r)
	case path == "/version" || path == "/version/":
		if r.Method != http.MethodGet {
			engine.WriteError(w, r, schema.GroupVersion{}, apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, r.Method, schema.GroupResource{}, "", "", 0, false))
			return
		}
		writeJSON(w, h.version)
	case path == "/metrics":
		h.metrics.ServeHTTP(w, r)
	case path == "/metrics/slis":
		h.slis.ServeHTTP(w, r)
	case path == "/" || path == "/index.html":
		if err := discovery.Paths(w, r, h.paths()); err != nil {
			engine.WriteError(w, r, schema.GroupVersion{}, err)
		}
	case h.issuer != nil && (path == serviceaccount.ConfigurationPath || path == serviceaccount.JWKSPath) && r.Method != http.MethodGet:
		engine.WriteError(w, r, schema.GroupVersion{}, apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, r.Method, schema.GroupResource{}, "", "", 0, false))
	case h.issuer != nil && (path == serviceaccount.ConfigurationPath || path == serviceaccount.JWKSPath) && !serviceaccount.Acceptable(r):
		engine.WriteError(w, r, schema.GroupVersion{}, serviceaccount.NotAcceptable(path))
	case h.issuer != nil && path == serviceaccount.ConfigurationPath:
		h.issuer.ServeConfiguration(w, r)
	case h.issuer != nil && path == serviceaccount.JWKSPath:
		h.issuer.ServeKeys(w, r)
	case h.flow != nil && strings.HasPrefix(path, flowcontrol.DebugPath):
		h.flow.ServeHTTP(w, r)
	case h.profiling && (path == "/debug/pprof" || strings.HasPrefix(path, "/debug/pprof/")):
		debug.ServeProfile(w, r)
	case h.profiling && strings.HasPrefix(path, debug.FlagsPath):
		h.verbosity.ServeHTTP(w, r)
	case path == encryption.Path:
		if err := h.rewriter.Serve(w, r); err != nil {
			engine.WriteError(w, r, schema.GroupVersion{}, err)
		}
	case h.console != nil && (path == console.Prefix || strings.HasPrefix(path, console.Prefix+"/")):
		h.console.ServeHTTP(w, r)
	case h.snapshots != nil && path == chain.SnapshotPath:
		h.snapshots.ServeHTTP(w, r)
	case h.zpages.Serve(w, r):
	case h.health.Serve(w, r):
	default:
		route.NotFound(w)
	}
}

// paths returns the paths that "/" lists.
func (h *root) paths() []string {
	out := append(h.discovery.Get().Paths(), h.health.Paths()...)
	out = append(out, "/flagz", "/metrics", "/metrics/slis", "/statusz", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version")
	if h.issuer != nil {
		out = append(out, serviceaccount.ConfigurationPath, serviceaccount.JWKSPath)
	}
	if h.profiling {
		out = append(out, "/debug/flags/v", "/debug/pprof", "/debug/pprof/profile")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}
