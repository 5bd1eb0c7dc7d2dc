// Package remotes follows the objects of extension servers for controllers, and changes their metadata. Only metadata
// is read. Code that treats all resources alike may ask for those of this server in the same way (KindOf).
//
// A resource is followed as a list and then a watch, each in its own goroutine, so that an extension server which hangs
// holds up nobody. While it does not answer, its objects are taken to be as they were last seen.
package remotes

import (
	"cmp"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
)

// Kind is a resource of an extension server, in the version in which controllers use it.
type Kind struct {
	catalog.RemoteResource
	// Current means that the extension server answers.
	Current bool
}

// Can reports whether the resource has verbs.
func (k *Kind) Can(verbs ...string) bool {
	return !slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(k.Verbs, v) })
}

// Kinds returns the resources of extension servers, each in its preferred version.
func Kinds(c *catalog.Catalog) map[schema.GroupResource]*Kind {
	out := map[schema.GroupResource]*Kind{}
	var preferred []*catalog.Remote
	for r := range c.Remotes() {
		preferred = append(preferred, r)
	}
	slices.SortStableFunc(preferred, func(a, b *catalog.Remote) int {
		return cmp.Or(cmp.Compare(b.VersionPriority, a.VersionPriority), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	for _, r := range preferred {
		for _, resource := range r.Resources() {
			if gr := resource.GroupResource(); out[gr] == nil && resource.Kind != "" {
				out[gr] = &Kind{resource, current(r)}
			}
		}
	}
	return out
}

// KindOf returns a resource, of this server or of an extension server; nil: discovery does not list it.
func KindOf(c *catalog.Catalog, gr schema.GroupResource) *Kind {
	if k := Kinds(c)[gr]; k != nil {
		return k
	}
	r := c.Resource(gr)
	if r == nil || !r.Listed || len(r.Versions) == 0 {
		return nil
	}
	version := r.Versions[0]
	return &Kind{Current: true, RemoteResource: catalog.RemoteResource{
		GroupVersionResource: gr.WithVersion(version), Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.Described(version).Declared().Verbs,
	}}
}

// current reports whether an extension server answers, as far as is known.
func current(r *catalog.Remote) bool {
	return !r.Dead && r.Discovery.Freshness == apidiscoveryv2.DiscoveryFreshnessCurrent
}
