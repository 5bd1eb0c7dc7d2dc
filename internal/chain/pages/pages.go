// Package pages has the paths of a server that are no resources: a table says who answers which, and what the filters before it have to know.
package pages

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/route"
)

// Page is a path that is no resource, or several with one handler.
type Page struct {
	// Paths are exact, or end in "/*", as in rules of RBAC: then they are all paths below.
	Paths []string
	// Serve answers requests. If it is nil the server does not have the page: it was not asked for.
	Serve http.HandlerFunc
	// Listed are the paths that "/" lists if the server has the page. Optional.
	Listed func() []string
	// Methods are those allowed, if the page does not say so itself. None: all.
	Methods []string
	// Filters is what filters have to know, also of a page that the server does not have.
	Filters request.Page
}

// At are the paths of a page.
func At(paths ...string) []string { return paths }

// List are paths that "/" lists.
func List(paths ...string) func() []string { return func() []string { return paths } }

// When is the handler of a page that the server may not have.
func When(has bool, serve http.HandlerFunc) http.HandlerFunc {
	if !has {
		return nil
	}
	return serve
}

// OrNotFound is the handler of pages of which some do not exist.
func OrNotFound(serve func(w http.ResponseWriter, r *http.Request) (found bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !serve(w, r) {
			route.NotFound(w)
		}
	}
}

// OrError is the handler of a page that returns an error instead of an answer.
func OrError(serve func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil {
			engine.WriteError(w, r, schema.GroupVersion{}, err)
		}
	}
}

// JSON is the handler of a page that is always the same document.
func JSON(document any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		b, err := json.MarshalIndent(document, "", "  ")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b)
	}
}

// ServeHTTP answers a request for the page.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case p == nil || p.Serve == nil:
		route.NotFound(w)
	case len(p.Methods) > 0 && !slices.Contains(p.Methods, r.Method):
		engine.WriteError(w, r, schema.GroupVersion{}, apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, r.Method, schema.GroupResource{}, "", "", 0, false))
	default:
		p.Serve(w, r)
	}
}

// Pages finds the pages of a table.
type Pages struct {
	table []Page
	exact map[string]*Page
	below map[string]*Page // by their paths without "*"
	// order has the keys of below, the longest first.
	order []string
}

// New makes the pages of a table. An exact path comes before one that ends in "/*", and of those the longest; so the order of the table
// does not matter.
func New(table []Page) Pages {
	out := Pages{table: table, exact: map[string]*Page{}, below: map[string]*Page{}}
	for i := range table {
		for _, path := range table[i].Paths {
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

// Find returns the page of a path, nil if there is none.
func (p *Pages) Find(path string) *Page {
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

// Filters returns what filters have to know of a path.
func (p *Pages) Filters(path string) request.Page {
	if found := p.Find(path); found != nil {
		return found.Filters
	}
	return request.Page{}
}

// Listed returns the paths that "/" lists, sorted.
func (p *Pages) Listed() []string {
	var out []string
	for i := range p.table {
		if of := &p.table[i]; of.Serve != nil && of.Listed != nil {
			out = append(out, of.Listed()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
