package catalog

import (
	"iter"
	"net/http"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Remote is a group and version that an extension API server serves. It hides what this server itself has in that
// version, such as a custom resource. It is immutable.
type Remote struct {
	schema.GroupVersion
	GroupPriority, VersionPriority int
	// Handler passes requests on to the extension server.
	Handler http.Handler
	// Discovery is what the extension server last said that it serves; Freshness is Stale while it does not answer.
	Discovery apidiscoveryv2.APIVersionDiscovery
	// Server names the service of the extension server, for messages: "namespace/name:port".
	Server string
	// Dead means that the extension server is known not to answer.
	Dead bool
}

// RemoteResource is a resource of an extension server.
type RemoteResource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	Verbs      []string
}

// Resources returns the resources that the extension server last listed, without subresources.
func (r *Remote) Resources() []RemoteResource {
	out := make([]RemoteResource, 0, len(r.Discovery.Resources))
	for i := range r.Discovery.Resources {
		d := &r.Discovery.Resources[i]
		out = append(out, RemoteResource{
			GroupVersionResource: r.WithResource(d.Resource), Kind: r.kind(d),
			Namespaced: d.Scope == apidiscoveryv2.ScopeNamespace, Verbs: d.Verbs,
		})
	}
	return out
}

// kind returns the kind of a resource; "" if it is of another group and version.
func (r *Remote) kind(d *apidiscoveryv2.APIResourceDiscovery) string {
	k := d.ResponseKind
	if k == nil || k.Group != "" && k.Group != r.Group || k.Version != "" && k.Version != r.Version {
		return ""
	}
	return k.Kind
}

// lists reports whether the extension server has listed a resource.
func (r *Remote) lists(resource string) bool {
	return slices.ContainsFunc(r.Discovery.Resources, func(d apidiscoveryv2.APIResourceDiscovery) bool { return d.Resource == resource })
}

func remoteKey(gv schema.GroupVersion) string { return gv.Group + "/" + gv.Version }

// Remote returns the extension server's claim of a group and version; nil if this server serves it, or nobody.
func (c *Catalog) Remote(gv schema.GroupVersion) *Remote {
	if c.remotes.Len() == 0 {
		return nil // without building a key for each request
	}
	r, _ := c.remotes.Get(remoteKey(gv))
	return r
}

// Remotes yields the groups and versions of extension servers now, sorted.
func (l *Live) Remotes() iter.Seq[*Remote] { return l.Now().Remotes() }

// Remotes yields the groups and versions of extension servers, sorted.
func (c *Catalog) Remotes() iter.Seq[*Remote] {
	return func(yield func(*Remote) bool) {
		c.remotes.Scan(func(_ string, r *Remote) bool { return yield(r) })
	}
}

// Local returns the versions of a resource that no extension server claims.
func (c *Catalog) Local(r *Resource) []string {
	if c.remotes.Len() == 0 {
		return r.Versions
	}
	return slices.DeleteFunc(slices.Clone(r.Versions), func(v string) bool {
		return c.Remote(schema.GroupVersion{Group: r.Group, Version: v}) != nil
	})
}

// Reached returns the version in which requests of the server itself reach a resource: that in which it is stored, unless
// requests for that one are not served here but those for another are.
func (c *Catalog) Reached(r *Resource) string {
	local := c.Local(r)
	if len(local) == 0 || slices.Contains(local, r.Storage) {
		return r.Storage
	}
	return local[0]
}

// PutRemotes adds or replaces groups and versions of extension servers.
func (l *Live) PutRemotes(remotes ...*Remote) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.Now().copy()
	for _, r := range remotes {
		next.remotes.Set(remoteKey(r.GroupVersion), r)
	}
	l.now.Store(next)
}

// RemoveRemotes gives groups and versions back to this server.
func (l *Live) RemoveRemotes(gvs ...schema.GroupVersion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.Now().copy()
	for _, gv := range gvs {
		next.remotes.Delete(remoteKey(gv))
	}
	l.now.Store(next)
}

// served reports whether this server serves a group and version.
func (c *Catalog) served(gv schema.GroupVersion) bool {
	found := false
	c.ofGroup(gv.Group, func(r *Resource) bool {
		found = r.serves(gv.Version)
		return !found
	})
	return found
}

// ofKind returns the resources that serve a kind.
func (r *Remote) ofKind(kind string) []admission.Resource {
	var out []admission.Resource
	for _, r := range r.Resources() {
		if r.Kind == kind {
			out = append(out, admission.Resource{GroupVersionResource: r.GroupVersionResource, Namespaced: r.Namespaced})
		}
	}
	return out
}
