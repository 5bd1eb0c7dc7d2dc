package catalog

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/route"
)

// Served is what serves a request: a resource of this server, or an extension server, which has a group and version with its
// discovery document to itself. The zero value is nobody.
type Served struct {
	Resource *Resource
	Remote   *Remote
}

// Resolve returns what serves a request for a resource, or for the discovery document of a group and version if that is an
// extension server's; the other documents are made of the whole catalog. What is missing may be new, so Resolve then waits for
// the newest catalog.
func (l *Live) Resolve(ctx context.Context, i *request.Info) Served {
	gv, ok := groupVersionOf(i)
	if !ok {
		return Served{}
	}
	s, known := l.Now().resolve(gv, i)
	if known || gv.Group == "" || l.Settle(ctx) != nil {
		return s // the core group has only built-in resources
	}
	s, _ = l.Now().resolve(gv, i)
	return s
}

// resolve is Resolve by one state. It is known who serves a request if its resource is in the catalog, even if not in the scope of
// the path, or if somebody has its group and version.
func (c *Catalog) resolve(gv schema.GroupVersion, i *request.Info) (s Served, known bool) {
	if s.Remote = c.Remote(gv); s.Remote != nil {
		return s, true
	}
	if !i.IsResource {
		return s, c.served(gv)
	}
	found := c.Version(gv.WithResource(i.Resource))
	if found != nil && (!found.Custom || found.inScope(i)) {
		s.Resource = found
	}
	return s, found != nil
}

// groupVersionOf returns the group and version of a request for a resource or a discovery document; ok is false if the path is of
// neither, so that nothing below it is served.
func groupVersionOf(i *request.Info) (gv schema.GroupVersion, ok bool) {
	if i.IsResource {
		return schema.GroupVersion{Group: i.Group, Version: i.Version}, wellFormed(i)
	}
	parts := strings.Split(strings.Trim(i.Path, "/"), "/")
	switch {
	case len(parts) == 3 && strings.HasPrefix(i.Path, "/apis/"):
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, true
	case len(parts) == 2 && strings.HasPrefix(i.Path, "/api/"):
		return schema.GroupVersion{Version: parts[1]}, true
	}
	return gv, false
}

// wellFormed reports whether the path of a resource can be served. Paths such as "//api/v1" and "/apis//v1" are authorized as they
// are parsed, and lead nowhere.
func wellFormed(i *request.Info) bool {
	return strings.HasPrefix(i.Path, "/"+i.Prefix+"/") && (i.Prefix != "apis" || i.Group != "")
}

// Elsewhere sets the func that serves requests for what nobody serves here, if another server of the cluster does; otherwise it
// returns false, having done nothing. It is called once, before anything is served.
func (l *Live) Elsewhere(serve func(w http.ResponseWriter, r *http.Request) bool) {
	l.elsewhere = serve
}

// ServeHTTP serves a request for a resource.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := request.InfoFrom(r.Context())
	gv := schema.GroupVersion{Group: i.Group, Version: i.Version}
	switch s := l.Resolve(r.Context(), i); {
	case i.Refusal != nil && s.Resource == nil:
		engine.WriteError(w, r, gv, i.Refusal) // nobody else narrows a request
	case s.Remote != nil:
		s.Remote.Handler.ServeHTTP(w, r)
	case s.Resource != nil:
		ep, err := s.Resource.Endpoint(i.Version)
		if err != nil {
			engine.WriteError(w, r, gv, err)
			return
		}
		ep.ServeHTTP(w, r)
	case wellFormed(i) && l.elsewhere(w, r):
	case l.builtin[i.Group] && wellFormed(i):
		engine.WriteError(w, r, gv, engine.NoPath())
	default:
		route.NotFound(w)
	}
}

// ServeDocuments serves the discovery documents of everything, of which get returns the current ones, but that of an extension server's group
// and version: it has that itself.
func (l *Live) ServeDocuments(get func() *discovery.Set) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if i := request.InfoFrom(r.Context()); i != nil {
			if s := l.Resolve(r.Context(), i); s.Remote != nil {
				s.Remote.Handler.ServeHTTP(w, r)
				return
			}
		}
		found, err := get().Serve(w, r)
		if err != nil {
			engine.WriteError(w, r, schema.GroupVersion{}, err)
		} else if !found {
			route.NotFound(w)
		}
	}
}

// Owns reports, for metrics, whether a request is for a resource that is served: an extension server has only those that it lists,
// although it gets all requests for its group and version.
func (l *Live) Owns(r *http.Request, i *request.Info) bool {
	s := l.Resolve(r.Context(), i)
	return s.Resource != nil || s.Remote != nil && s.Remote.lists(i.Resource)
}

// inScope reports whether a path has a namespace if, and only if, the resource and the verb require one.
func (r *Resource) inScope(i *request.Info) bool {
	return r.Namespaced == (i.Namespace != "") || r.Namespaced && (i.Verb == "list" || i.Verb == "watch")
}

// Serves reports whether a resource is served, by this server or by another one; in any version if it names none.
func (l *Live) Serves(gvr schema.GroupVersionResource) bool {
	now := l.Now()
	if now.serves(gvr) {
		return true
	}
	found := false
	now.remotes.Scan(func(_ string, r *Remote) bool {
		found = r.Group == gvr.Group && (gvr.Version == "" || r.Version == gvr.Version) && r.lists(gvr.Resource)
		return !found
	})
	return found
}

func (c *Catalog) serves(gvr schema.GroupVersionResource) bool {
	if gvr.Version == "" {
		return c.Resource(gvr.GroupResource()) != nil
	}
	return c.Version(gvr) != nil
}
