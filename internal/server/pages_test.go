package server

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/chain/debug"
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
	for _, p := range without().pages.table {
		if len(p.paths) == 0 {
			t.Error("a page without a path")
		}
		for _, path := range p.paths {
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

// An exact path comes first, then the longest prefix.
func TestFindPage(t *testing.T) {
	table := []page{{paths: at("/a/*")}, {paths: at("/a/b/*", "/a")}, {paths: at("/a/b")}}
	p := newPages(table)
	for path, want := range map[string]int{
		"/": -1, "/a": 1, "/ab": -1, "/a/": 0, "/a/c": 0, "/a/b": 2, "/a/b/": 1, "/a/b/c": 1, "/a/bc": 0, "//a": -1, "": -1, "*": -1,
	} {
		got := slices.IndexFunc(table, func(q page) bool {
			found := p.find(path)
			return found != nil && reflect.DeepEqual(q.paths, found.paths)
		})
		if got != want {
			t.Errorf("%q has page %d, want %d", path, got, want)
		}
	}
}

// Few pages may take as long as their client wants, whether the server has them or not.
func TestLongRunningPages(t *testing.T) {
	long, stream := request.Page{LongRunning: true}, request.Page{LongRunning: true, Stream: true}
	want := map[string]request.Page{"/debug/pprof/": long, "/debug/pprof/x": long, "/debug/pprof/a/b": long, "/encryption": long, "/kanzen/space": long, "/kanzen/snapshot": stream}
	h := without()
	paths := []string{"/debug/pprofx", "/encryption/", "/kanzen/snapshot/", "/nosuch", "", "/debug/pprof/a/b"}
	for _, p := range h.pages.table {
		for _, path := range p.paths {
			paths = append(paths, strings.TrimSuffix(path, "*"), strings.Replace(path, "*", "x", 1))
		}
	}
	for _, path := range paths {
		if got := h.pages.filters(path); got != want[path] {
			t.Errorf("%s: %+v, want %+v", path, got, want[path])
		}
	}
}

// What a server does not have is not found, whatever the method, and is not listed.
func TestAbsentPages(t *testing.T) {
	h := without()
	table := slices.DeleteFunc(h.table(), func(p page) bool { return slices.Contains(p.paths, "/api") }) // there are no documents here
	index := newPages(table)
	listed := index.listed()
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
