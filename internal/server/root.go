package server

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"github.com/kanzen-io/kanzen/internal/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/discovery"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/live"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/version"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// root serves what is behind the chain: resources by the route table, and the
// few paths that are none.
type root struct {
	resources http.Handler
	discovery *live.Value[*discovery.Set]
	openapi   http.Handler
	health    *health
	metrics   http.Handler
	slis      http.Handler
	issuer    *serviceaccount.Discovery // nil: the issuer cannot be discovered
	profiling bool
	flow      *flowcontrol.Controller // nil: there is none
	zpages    *zpages
	verbosity *Verbosity
}

func (h *root) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i := request.InfoFrom(r.Context()); i != nil && i.IsResource {
		// "//api/v1" and "/apis//v1" are authorized as what they look like,
		// and lead nowhere.
		if !strings.HasPrefix(r.URL.Path, "/"+i.Prefix+"/") || i.Prefix == "apis" && i.Group == "" {
			notFound(w)
			return
		}
		h.resources.ServeHTTP(w, r)
		return
	}
	h.serveOther(w, r)
}

func (h *root) serveOther(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case path == "/api" || path == "/apis" || strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/"):
		found, err := h.discovery.Get().Serve(w, r)
		if err != nil {
			engine.WriteError(w, r, schema.GroupVersion{}, err)
		} else if !found {
			notFound(w)
		}
	case strings.HasPrefix(path, "/openapi/") && path != serviceaccount.JWKSPath:
		h.openapi.ServeHTTP(w, r)
	case path == "/version" || path == "/version/":
		if r.Method != http.MethodGet {
			engine.WriteError(w, r, schema.GroupVersion{}, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "version"}, r.Method))
			return
		}
		writeJSON(w, version.Info())
	case path == "/metrics":
		h.metrics.ServeHTTP(w, r)
	case path == "/metrics/slis":
		h.slis.ServeHTTP(w, r)
	case path == "/" || path == "/index.html":
		if err := discovery.Paths(w, r, h.paths()); err != nil {
			engine.WriteError(w, r, schema.GroupVersion{}, err)
		}
	case h.issuer != nil && (path == serviceaccount.ConfigurationPath || path == serviceaccount.JWKSPath) && r.Method != http.MethodGet:
		engine.WriteError(w, r, schema.GroupVersion{}, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "openid"}, r.Method))
	case h.issuer != nil && (path == serviceaccount.ConfigurationPath || path == serviceaccount.JWKSPath) && !serviceaccount.Acceptable(r):
		engine.WriteError(w, r, schema.GroupVersion{}, serviceaccount.NotAcceptable(path))
	case h.issuer != nil && path == serviceaccount.ConfigurationPath:
		h.issuer.ServeConfiguration(w, r)
	case h.issuer != nil && path == serviceaccount.JWKSPath:
		h.issuer.ServeKeys(w, r)
	case h.flow != nil && strings.HasPrefix(path, flowcontrol.DebugPath):
		h.flow.ServeHTTP(w, r)
	case h.profiling && strings.HasPrefix(path, "/debug/pprof"):
		serveProfile(w, r)
	case h.profiling && strings.HasPrefix(path, flagsPath):
		h.verbosity.serveFlags(w, r)
	case h.zpages.serve(w, r):
	case h.health.serve(w, r):
	default:
		notFound(w)
	}
}

// notFound answers for paths that nobody owns, as upstream does: with a text.
func notFound(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte("404 page not found\n"))
}

// paths are all that "/" lists.
func (h *root) paths() []string {
	out := append(h.discovery.Get().Paths(), h.health.paths()...)
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

func serveProfile(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
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
