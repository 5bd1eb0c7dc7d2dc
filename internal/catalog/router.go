package catalog

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/route"
)

// ServeHTTP passes a resource request to its endpoint.
func (l *Live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := request.InfoFrom(r.Context())
	gv := schema.GroupVersion{Group: i.Group, Version: i.Version}
	if remote := l.Now().Remote(gv); remote != nil {
		remote.Handler.ServeHTTP(w, r)
		return
	}
	found := l.Find(r.Context(), gv.WithResource(i.Resource))
	if found == nil {
		if remote := l.Now().Remote(gv); remote != nil { // new
			remote.Handler.ServeHTTP(w, r)
			return
		}
	}
	switch {
	case found != nil && (!found.Custom || found.inScope(i)):
	case l.builtin[i.Group]:
		engine.WriteError(w, r, gv, engine.NoPath())
		return
	default:
		route.NotFound(w)
		return
	}
	ep, err := found.Endpoint(i.Version)
	if err != nil {
		engine.WriteError(w, r, gv, err)
		return
	}
	ep.ServeHTTP(w, r)
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

// Owns reports whether a request is for a served resource.
func (l *Live) Owns(r *http.Request, i *request.Info) bool {
	gv := schema.GroupVersion{Group: i.Group, Version: i.Version}
	if remote := l.Now().Remote(gv); remote != nil {
		return remote.lists(i.Resource)
	}
	found := l.Find(r.Context(), gv.WithResource(i.Resource))
	return found != nil && (!found.Custom || found.inScope(i))
}
