package peers

import (
	"maps"
	"reflect"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilsort "k8s.io/apimachinery/pkg/util/sort"

	"github.com/kanzen-io/kanzen/internal/api/discovery"
)

// Merge returns what all servers serve, of which local is this server's part. If the others serve the same in the same order,
// it is local.
func (p *Roster) Merge(local []apidiscoveryv2.APIGroupDiscovery) []apidiscoveryv2.APIGroupDiscovery {
	p.Metrics.misses.Inc()
	p.made.Store(true)
	all := map[string][]apidiscoveryv2.APIGroupDiscovery{p.Server: local}
	for name, s := range p.all() {
		all[name] = p.asked(s.groups)
	}
	return MergeAll(p.Server, all)
}

// Asked counts a request for a discovery document.
func (p *Roster) Asked(alone bool) {
	switch {
	case alone:
		p.Metrics.alone.Inc()
	case p.made.Load():
		p.Metrics.hits.Inc()
	}
}

// asked leaves out what other servers are not asked for.
func (p *Roster) asked(groups []apidiscoveryv2.APIGroupDiscovery) (out []apidiscoveryv2.APIGroupDiscovery) {
	for _, g := range groups {
		g.Versions = slices.DeleteFunc(slices.Clone(g.Versions), func(v apidiscoveryv2.APIVersionDiscovery) bool {
			return p.owned.has(schema.GroupVersion{Group: g.Name, Version: v.Version})
		})
		if len(g.Versions) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// MergeAll merges the groups of all servers, by their names: in the order of these, so that every server makes the same of them.
// If all serve the same in the same order, it is what the named server has.
func MergeAll(server string, all map[string][]apidiscoveryv2.APIGroupDiscovery) []apidiscoveryv2.APIGroupDiscovery {
	var lists [][]apidiscoveryv2.APIGroupDiscovery
	for _, name := range slices.Sorted(maps.Keys(all)) {
		lists = append(lists, all[name])
	}
	merged, changed := union(groupName, mergeGroups, lists...)
	local := namesOf(groupName, all[server])
	same := func(l []apidiscoveryv2.APIGroupDiscovery) bool { return slices.Equal(namesOf(groupName, l), local) }
	if !changed && !slices.ContainsFunc(lists, func(l []apidiscoveryv2.APIGroupDiscovery) bool { return !same(l) }) {
		return all[server]
	}
	return merged
}

func groupName(g apidiscoveryv2.APIGroupDiscovery) string       { return g.Name }
func versionName(v apidiscoveryv2.APIVersionDiscovery) string   { return v.Version }
func resourceName(r apidiscoveryv2.APIResourceDiscovery) string { return r.Resource }

func mergeGroups(a, b apidiscoveryv2.APIGroupDiscovery) (apidiscoveryv2.APIGroupDiscovery, bool) {
	versions, changed := either(versionName, mergeVersions, a.Versions, b.Versions)
	a.Versions = versions
	return a, changed
}

func mergeVersions(a, b apidiscoveryv2.APIVersionDiscovery) (apidiscoveryv2.APIVersionDiscovery, bool) {
	resources, changed := either(resourceName, mergeResources, a.Resources, b.Resources)
	a.Resources = resources
	return a, changed
}

// mergeResources has the verbs and subresources of both, sorted if they differ.
func mergeResources(a, b apidiscoveryv2.APIResourceDiscovery) (apidiscoveryv2.APIResourceDiscovery, bool) {
	if reflect.DeepEqual(a, b) {
		return a, false
	}
	a.Verbs = slices.Concat(a.Verbs, b.Verbs)
	slices.Sort(a.Verbs)
	a.Verbs = slices.Compact(a.Verbs)
	subresources := map[string]apidiscoveryv2.APISubresourceDiscovery{}
	for _, s := range slices.Concat(a.Subresources, b.Subresources) {
		subresources[s.Subresource] = s
	}
	a.Subresources = nil
	for _, name := range slices.Sorted(maps.Keys(subresources)) {
		a.Subresources = append(a.Subresources, subresources[name])
	}
	return a, true
}

// either is union, of two lists, and a itself if b adds nothing. changed says that it is not.
func either[T any](name func(T) string, both func(a, b T) (T, bool), a, b []T) (out []T, changed bool) {
	out, changed = union(name, both, a, b)
	if !changed && slices.Equal(namesOf(name, a), namesOf(name, b)) {
		return a, false
	}
	return out, true
}

// union returns what is in some of the lists, each once, in an order that agrees with all of them if there is one. both
// merges what is in two of them, and reports whether that changes a; changed says that it was so for any.
func union[T any](name func(T) string, both func(a, b T) (T, bool), lists ...[]T) (out []T, changed bool) {
	found, orders := map[string]T{}, make([][]string, 0, len(lists))
	for _, list := range lists {
		for _, item := range list {
			n, more := name(item), false
			if before, ok := found[n]; ok {
				item, more = both(before, item)
			}
			found[n], changed = item, changed || more
		}
		orders = append(orders, namesOf(name, list))
	}
	for _, n := range utilsort.MergePreservingRelativeOrder(orders) {
		out = append(out, found[n])
	}
	return out, changed
}

func namesOf[T any](name func(T) string, list []T) []string {
	out := make([]string, 0, len(list))
	for _, item := range list {
		out = append(out, name(item))
	}
	return out
}

// Documents adds what the other servers serve to the discovery documents of this one; a nil Roster adds nothing.
func (p *Roster) Documents(own *discovery.Set) *discovery.Set {
	if p == nil {
		return own
	}
	return own.With(p)
}
