package route

import (
	"errors"
	"net/http"
	"slices"

	"github.com/kanzen-io/kanzen/internal/request"
)

// AllVerbs are those of a stored resource.
func AllVerbs() []string {
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

// Declared is the one set of requests that a resource takes in one group and
// version: its scope, its verbs, and its subresources with theirs. Discovery
// lists it, and Find refuses every request outside of it, so that what was
// authorized (request.Info) is what is served.
type Declared struct {
	Namespaced   bool
	Verbs        []string
	Subresources []Subresource
	// Head answers HEAD like GET, of custom resources.
	Head bool
}

// Subresource is a path below an object's.
type Subresource struct {
	Name  string
	Verbs []string
	// Proxy passes every method on, and what follows in the path.
	Proxy bool
}

// ErrPath and ErrMethod refuse a request: nothing is at its path, or what is
// there does not take its method.
var (
	ErrPath   = errors.New("the path leads nowhere")
	ErrMethod = errors.New("the path does not take the method")
)

// Find says which subresource a request is for; nil is the object or the
// collection itself. The error is ErrPath or ErrMethod.
func (d *Declared) Find(i *request.Info, method string) (*Subresource, error) {
	if i.Gaps || i.Verb == "proxy" || !d.inScope(i) {
		return nil, ErrPath
	}
	if i.VerbInPath {
		return nil, d.legacyWatch(i, method)
	}
	switch n := len(i.Parts); n {
	case 1, 2:
		return nil, d.takes(i, n == 1, method)
	case 3:
	default:
		if s := d.Subresource(i.Subresource); s == nil || !s.Proxy {
			return nil, ErrPath
		}
	}
	s := d.Subresource(i.Subresource)
	if s == nil {
		return nil, ErrPath
	}
	if !d.subtakes(s, i, method) {
		return nil, ErrMethod
	}
	return s, nil
}

// Subresource returns the subresource of a name, nil if there is none.
func (d *Declared) Subresource(name string) *Subresource {
	for n := range d.Subresources {
		if d.Subresources[n].Name == name {
			return &d.Subresources[n]
		}
	}
	return nil
}

// inScope says that a path names a namespace if, and only if, the resource is
// in one. Collections can also be asked for across namespaces.
func (d *Declared) inScope(i *request.Info) bool {
	return i.InNamespace == d.Namespaced || d.Namespaced && len(i.Parts) == 1
}

// takes says whether the collection or an object takes a request.
func (d *Declared) takes(i *request.Info, collection bool, method string) error {
	of := []string{"get", "update", "patch", "delete"}
	switch {
	case collection && d.Namespaced && !i.InNamespace:
		of = []string{"list", "watch"} // across namespaces there is only reading
	case collection:
		of = []string{"list", "watch", "create", "deletecollection"}
	}
	switch {
	case !slices.ContainsFunc(of, func(verb string) bool { return slices.Contains(d.Verbs, verb) }):
		return ErrPath // a review has no objects
	case method == http.MethodHead && (!d.Head || i.Verb == "watch"), !slices.Contains(of, i.Verb), !slices.Contains(d.Verbs, i.Verb):
		return ErrMethod
	}
	return nil
}

// legacyWatch is GET /api/v1/watch/pods, of a collection or an object.
func (d *Declared) legacyWatch(i *request.Info, method string) error {
	switch {
	case len(i.Parts) > 2 || !slices.Contains(d.Verbs, "watch"):
		return ErrPath
	case method != http.MethodGet:
		return ErrMethod
	}
	return nil
}

func (d *Declared) subtakes(s *Subresource, i *request.Info, method string) bool {
	switch method {
	case http.MethodHead:
		return s.Proxy || d.Head && slices.Contains(s.Verbs, i.Verb)
	case http.MethodOptions:
		return s.Proxy
	}
	return slices.Contains(s.Verbs, i.Verb)
}
