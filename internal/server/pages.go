package server

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authn/serviceaccount"
	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/chain/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/forks"
	"github.com/kanzen-io/kanzen/internal/observe/console"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/route"
)

// page is a path that is no resource, or several with one handler.
type page struct {
	// paths are exact, or end in "/*", as in rules of RBAC: then they are all paths below.
	paths []string
	// serve answers requests. If it is nil the server does not have the page: it was not asked for.
	serve http.HandlerFunc
	// listed are the paths that "/" lists if the server has the page. Optional.
	listed func() []string
	// methods are those allowed, if the page does not say so itself. None: all.
	methods []string
	// filters is what filters have to know, also of a page that the server does not have.
	filters request.Page
}

// table has everything that is served and is no resource. An exact path comes before one that ends in "/*", and of those the
// longest; so the order of the table does not matter.
func (h *root) table() []page {
	get := []string{http.MethodGet}
	long := request.Page{LongRunning: true}
	return []page{
		{paths: at("/", "/index.html"), serve: orError(h.serveIndex)},
		{paths: at("/api", "/api/*", "/apis", "/apis/*"), serve: h.serveDiscovery, listed: func() []string { return h.discovery.Get().Paths() }},
		{paths: at("/openapi/*"), serve: h.openapi.ServeHTTP, listed: list("/openapi/v2", "/openapi/v3", "/openapi/v3/")},
		{paths: at("/version", "/version/"), serve: h.serveVersion, listed: list("/version"), methods: get},
		{paths: at("/metrics"), serve: h.metrics.ServeHTTP, listed: list("/metrics")},
		{paths: at("/metrics/slis"), serve: h.slis.ServeHTTP, listed: list("/metrics/slis")},
		{paths: at("/healthz", "/healthz/*", "/livez", "/livez/*", "/readyz", "/readyz/*"), serve: orNotFound(h.health.Serve), listed: h.health.Paths},
		{paths: at("/statusz"), serve: when(h.zpages.Statusz, orNotFound(h.zpages.Serve)), listed: list("/statusz")},
		{paths: at("/flagz"), serve: when(h.zpages.Flagz, orNotFound(h.zpages.Serve)), listed: list("/flagz")},
		{paths: at(serviceaccount.ConfigurationPath, serviceaccount.ConfigurationPath+"/"), serve: when(h.issuer != nil, negotiated(h.issuer.ServeConfiguration)),
			listed: list(serviceaccount.ConfigurationPath), methods: get},
		{paths: at(serviceaccount.JWKSPath, serviceaccount.JWKSPath+"/"), serve: when(h.issuer != nil, negotiated(h.issuer.ServeKeys)), listed: list(serviceaccount.JWKSPath), methods: get},
		{paths: at(flowcontrol.DebugPath + "*"), serve: when(h.flow != nil, h.flow.ServeHTTP)},
		{paths: at("/debug/pprof"), serve: when(h.profiling, debug.ServeProfile), listed: list("/debug/pprof")},
		{paths: at("/debug/pprof/*"), serve: when(h.profiling, debug.ServeProfile), listed: list("/debug/pprof/profile"), filters: long},
		{paths: at(debug.FlagsPath, debug.FlagsPath+"/*"), serve: when(h.profiling, h.verbosity.ServeHTTP), listed: list(debug.FlagsPath + "/v")},
		{paths: at(encryption.Path), serve: orError(h.rewriter.Serve), filters: long},
		{paths: at(snapshot.Path), serve: when(h.snapshots != nil, h.snapshots.ServeHTTP), filters: request.Page{LongRunning: true, Stream: true}},
		{paths: at(snapshot.SpacePath), serve: when(h.space != nil, h.space.ServeHTTP), filters: long},
		{paths: at(forks.Path, forks.Path+"/*"), serve: when(h.forks != nil, orError(h.forks.Serve)), filters: request.Page{LongRunning: h.forks != nil}},
		{paths: at(ExportsPath + "/*"), serve: when(h.exports != nil, orError(h.exports)), filters: request.Page{LongRunning: h.exports != nil}},
		{paths: at(console.Prefix, console.Prefix+"/*"), serve: when(h.console != nil, h.console.ServeHTTP)},
	}
}

func at(paths ...string) []string { return paths }

func list(paths ...string) func() []string { return func() []string { return paths } }

// when is the handler of a page that the server may not have.
func when(has bool, serve http.HandlerFunc) http.HandlerFunc {
	if !has {
		return nil
	}
	return serve
}

// orNotFound is the handler of pages of which some do not exist.
func orNotFound(serve func(w http.ResponseWriter, r *http.Request) (found bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !serve(w, r) {
			route.NotFound(w)
		}
	}
}

// orError is the handler of a page that returns an error instead of an answer.
func orError(serve func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil {
			engine.WriteError(w, r, schema.GroupVersion{}, err)
		}
	}
}

// negotiated is the handler of a page of the issuer, which has one media type.
func negotiated(serve http.HandlerFunc) http.HandlerFunc {
	return orError(func(w http.ResponseWriter, r *http.Request) error {
		if !serviceaccount.Acceptable(r) {
			return serviceaccount.NotAcceptable(r.URL.Path)
		}
		serve(w, r)
		return nil
	})
}

// ServeHTTP answers a request for the page.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case p == nil || p.serve == nil:
		route.NotFound(w)
	case len(p.methods) > 0 && !slices.Contains(p.methods, r.Method):
		engine.WriteError(w, r, schema.GroupVersion{}, apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, r.Method, schema.GroupResource{}, "", "", 0, false))
	default:
		p.serve(w, r)
	}
}

// pages finds the pages of a table.
type pages struct {
	table []page
	exact map[string]*page
	below map[string]*page // by their paths without "*"
	// order has the keys of below, the longest first.
	order []string
}

func newPages(table []page) pages {
	out := pages{table: table, exact: map[string]*page{}, below: map[string]*page{}}
	for i := range table {
		for _, path := range table[i].paths {
			if prefix, ok := strings.CutSuffix(path, "*"); ok {
				out.below[prefix] = &table[i]
			} else {
				out.exact[path] = &table[i]
			}
		}
	}
	out.order = slices.SortedFunc(maps.Keys(out.below), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return out
}

// find returns the page of a path, nil if there is none.
func (p *pages) find(path string) *page {
	if exact := p.exact[path]; exact != nil {
		return exact
	}
	for _, prefix := range p.order {
		if strings.HasPrefix(path, prefix) {
			return p.below[prefix]
		}
	}
	return nil
}

// filters returns what filters have to know of a path.
func (p *pages) filters(path string) request.Page {
	if found := p.find(path); found != nil {
		return found.filters
	}
	return request.Page{}
}

// listed returns the paths that "/" lists, sorted.
func (p *pages) listed() []string {
	var out []string
	for i := range p.table {
		if of := &p.table[i]; of.serve != nil && of.listed != nil {
			out = append(out, of.listed()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (h *root) serveIndex(w http.ResponseWriter, r *http.Request) error {
	return discovery.Paths(w, r, h.pages.listed())
}

func (h *root) serveDiscovery(w http.ResponseWriter, r *http.Request) {
	if i := request.InfoFrom(r.Context()); i != nil {
		if s := h.catalog.Resolve(r.Context(), i); s.Remote != nil {
			s.Remote.Handler.ServeHTTP(w, r)
			return
		}
	}
	found, err := h.discovery.Get().Serve(w, r)
	if err != nil {
		engine.WriteError(w, r, schema.GroupVersion{}, err)
	} else if !found {
		route.NotFound(w)
	}
}

func (h *root) serveVersion(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h.version) }
