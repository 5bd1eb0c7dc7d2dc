package server

import (
	"net/http"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/chain/pages"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
	"github.com/kanzen-io/kanzen/internal/observe/console"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/request"
)

// root is the handler after the chain. It serves resources through the catalog, and the few paths that are not resources by the
// table of pages.
type root struct {
	catalog   *catalog.Live
	discovery func() *discovery.Set
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
	snapshots *snapshot.Handler                                  // nil: this control plane serves none
	space     *snapshot.SpaceHandler                             // as snapshots
	console   *console.Console                                   // nil: there is none
	forks     *forks.Forks                                       // nil: there are none
	exports   func(w http.ResponseWriter, r *http.Request) error // nil: there are none
	transfers func(w http.ResponseWriter, r *http.Request) bool  // nil: there are no planes

	pages pages.Pages // made of all of these
}

// begin makes the table of pages.
func (h *root) begin() *root {
	h.pages = pages.New(h.table())
	return h
}

// table has everything that is served and is no resource.
func (h *root) table() []pages.Page {
	get := []string{http.MethodGet}
	long := request.Page{LongRunning: true}
	return []pages.Page{
		{Paths: pages.At("/", "/index.html"), Serve: pages.OrError(func(w http.ResponseWriter, r *http.Request) error { return discovery.Paths(w, r, h.pages.Listed()) })},
		{Paths: pages.At("/api", "/api/*", "/apis", "/apis/*"), Serve: h.catalog.ServeDocuments(h.discovery), Listed: func() []string { return h.discovery().Paths() }},
		{Paths: pages.At("/openapi/*"), Serve: h.openapi.ServeHTTP, Listed: pages.List("/openapi/v2", "/openapi/v3", "/openapi/v3/")},
		{Paths: pages.At("/version", "/version/"), Serve: pages.JSON(h.version), Listed: pages.List("/version"), Methods: get},
		{Paths: pages.At("/metrics"), Serve: h.metrics.ServeHTTP, Listed: pages.List("/metrics")},
		{Paths: pages.At("/metrics/slis"), Serve: h.slis.ServeHTTP, Listed: pages.List("/metrics/slis")},
		{Paths: pages.At("/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*"), Serve: pages.OrNotFound(h.health.Serve), Listed: h.health.Paths},
		{Paths: pages.At("/statusz"), Serve: pages.When(h.zpages.Statusz, pages.OrNotFound(h.zpages.Serve)), Listed: pages.List("/statusz")},
		{Paths: pages.At("/flagz"), Serve: pages.When(h.zpages.Flagz, pages.OrNotFound(h.zpages.Serve)), Listed: pages.List("/flagz")},
		{Paths: pages.At(serviceaccount.ConfigurationPath, serviceaccount.ConfigurationPath+"/"), Serve: pages.When(h.issuer != nil, pages.OrError(h.issuer.ServeConfiguration)),
			Listed: pages.List(serviceaccount.ConfigurationPath), Methods: get},
		{Paths: pages.At(serviceaccount.JWKSPath, serviceaccount.JWKSPath+"/"), Serve: pages.When(h.issuer != nil, pages.OrError(h.issuer.ServeKeys)), Listed: pages.List(serviceaccount.JWKSPath), Methods: get},
		{Paths: pages.At(flowcontrol.DebugPath + "*"), Serve: pages.When(h.flow != nil, h.flow.ServeHTTP)},
		{Paths: pages.At("/debug/pprof"), Serve: pages.When(h.profiling, debug.ServeProfile), Listed: pages.List("/debug/pprof")},
		{Paths: pages.At("/debug/pprof/*"), Serve: pages.When(h.profiling, debug.ServeProfile), Listed: pages.List("/debug/pprof/profile"), Filters: long},
		{Paths: pages.At(debug.FlagsPath, debug.FlagsPath+"/*"), Serve: pages.When(h.profiling, h.verbosity.ServeHTTP), Listed: pages.List(debug.FlagsPath + "/v")},
		{Paths: pages.At(encryption.Path), Serve: pages.OrError(h.rewriter.Serve), Filters: long},
		{Paths: pages.At(snapshot.Path), Serve: pages.When(h.snapshots != nil, h.snapshots.ServeHTTP), Filters: request.Page{LongRunning: true, Stream: true}},
		{Paths: pages.At(snapshot.SpacePath), Serve: pages.When(h.space != nil, h.space.ServeHTTP), Filters: long},
		{Paths: pages.At(forks.Path, forks.Path+"/*"), Serve: pages.When(h.forks != nil, pages.OrError(h.forks.Serve)), Filters: request.Page{LongRunning: h.forks != nil}},
		{Paths: pages.At(ExportsPath + "/*"), Serve: pages.When(h.exports != nil, pages.OrError(h.exports)), Filters: request.Page{LongRunning: h.exports != nil}},
		{Paths: pages.At(console.Prefix, console.Prefix+"/*"), Serve: pages.When(h.console != nil, h.console.ServeHTTP)},
	}
}

func (h *root) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i := request.InfoFrom(r.Context()); i != nil && i.IsResource {
		if h.transfers == nil || !h.transfers(w, r) {
			h.catalog.ServeHTTP(w, r)
		}
		return
	}
	h.pages.Find(r.URL.Path).ServeHTTP(w, r)
}
