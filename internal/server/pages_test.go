package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/chain/debug"
	"github.com/kanzen-io/kanzen/internal/chain/pages"
	"github.com/kanzen-io/kanzen/internal/request"
)

// without is a root that has none of the pages that a server may not have.
func without() *root {
	return (&root{openapi: http.NotFoundHandler(), metrics: http.NotFoundHandler(), slis: http.NotFoundHandler(),
		health: &debug.Health{}, zpages: &debug.Zpages{}}).begin()
}

// Each path has one page, and is exact or ends in "/*".
func TestPagesAreDifferent(t *testing.T) {
	of := map[string]int{}
	for _, p := range without().table() {
		if len(p.Paths) == 0 {
			t.Error("a page without a path")
		}
		for _, path := range p.Paths {
			of[path]++
			if star := strings.Index(path, "*"); !strings.HasPrefix(path, "/") || star >= 0 && !strings.HasSuffix(path[:star], "/") || star >= 0 && star != len(path)-1 {
				t.Errorf("%s is neither exact nor ends in /*", path)
			}
		}
	}
	for path, n := range of {
		if n != 1 {
			t.Errorf("%s has %d pages", path, n)
		}
	}
}

// Few pages may take as long as their client wants, whether the server has them or not.
func TestLongRunningPages(t *testing.T) {
	long, stream := request.Page{LongRunning: true}, request.Page{LongRunning: true, Stream: true}
	want := map[string]request.Page{"/debug/pprof/": long, "/debug/pprof/x": long, "/debug/pprof/a/b": long, "/encryption": long, "/kanzen/space": long, "/kanzen/snapshot": stream}
	h := without()
	paths := []string{"/debug/pprofx", "/encryption/", "/kanzen/snapshot/", "/nosuch", "", "/debug/pprof/a/b"}
	for _, p := range h.table() {
		for _, path := range p.Paths {
			paths = append(paths, strings.TrimSuffix(path, "*"), strings.Replace(path, "*", "x", 1))
		}
	}
	for _, path := range paths {
		if got := h.pages.Filters(path); got != want[path] {
			t.Errorf("%s: %+v, want %+v", path, got, want[path])
		}
	}
}

// What a server does not have is not found, whatever the method, and is not listed.
func TestAbsentPages(t *testing.T) {
	h := without()
	table := slices.DeleteFunc(h.table(), func(p pages.Page) bool { return slices.Contains(p.Paths, "/api") }) // there are no documents here
	index := pages.New(table)
	listed := index.Listed()
	for _, path := range []string{"/debug/pprof", "/debug/pprof/", "/debug/pprof/profile", "/debug/flags", "/debug/flags/v", "/statusz", "/flagz", "/console", "/console/",
		"/kanzen/snapshot", "/.well-known/openid-configuration", "/openid/v1/jwks", "/debug/api_priority_and_fairness/dump_queues", "/healthz/", "/healthz/nosuch", "/debug/flagsv", "/nosuch"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != http.StatusNotFound || w.Body.String() != "404 page not found\n" {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
		if slices.Contains(listed, path) {
			t.Errorf("%s is listed", path)
		}
	}
}
