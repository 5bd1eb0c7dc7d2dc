package catalog

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/engine"
)

// Priorities of all groups and versions of custom resources.
const customGroupPriority, customVersionPriority = 1000, 100

// GroupVersions returns the group-versions for discovery, the built-in ones first and those of extension servers last. Their resources are looked up when a
// document is generated.
func (c *Catalog) GroupVersions() []discovery.GroupVersion {
	var out []discovery.GroupVersion
	for _, custom := range []bool{false, true} {
		in := map[schema.GroupVersion][]*Resource{}
		var order []schema.GroupVersion
		for r := range c.All() {
			if r.Custom != custom || !r.Listed {
				continue
			}
			for _, v := range c.Local(r) {
				gv := schema.GroupVersion{Group: r.Group, Version: v}
				if in[gv] == nil {
					order = append(order, gv)
				}
				in[gv] = append(in[gv], r)
			}
		}
		for _, gv := range order {
			group, version := customGroupPriority, customVersionPriority
			if !custom {
				group, version = discovery.Priorities(gv)
			}
			out = append(out, discovery.GroupVersion{
				GroupVersion: gv, GroupPriority: group, VersionPriority: version, Custom: custom,
				Resources: func() []*engine.Resource {
					var rs []*engine.Resource
					for _, r := range in[gv] {
						rs = append(rs, r.Described(gv.Version))
					}
					return rs
				},
			})
		}
	}
	for r := range c.Remotes() {
		out = append(out, discovery.GroupVersion{
			GroupVersion: r.GroupVersion, GroupPriority: r.GroupPriority, VersionPriority: r.VersionPriority, Remote: &r.Discovery,
		})
	}
	return out
}

// Endpoints returns one endpoint for each resource that discovery lists, for code that processes all stored objects. An
// endpoint is of a version that this server serves: what extension servers hide cannot be reached by a request.
func (l *Live) Endpoints() []*engine.Endpoint {
	var out []*engine.Endpoint
	now := l.Now()
	for r := range now.All() {
		if ep := now.reached(r); ep != nil {
			out = append(out, ep)
		}
	}
	return out
}

// Reach returns the one of Endpoints that has a resource; nil: none has.
func (l *Live) Reach(gr schema.GroupResource) *engine.Endpoint {
	now := l.Now()
	if r := now.Resource(gr); r != nil {
		return now.reached(r)
	}
	return nil
}

func (c *Catalog) reached(r *Resource) *engine.Endpoint {
	if !r.Listed || len(c.Local(r)) == 0 {
		return nil
	}
	if ep, err := r.Endpoint(c.Reached(r)); err == nil {
		return ep
	}
	return nil
}

// MakeViews makes those views of built-in resources that nobody has asked for yet, for who looks at all there are.
func (l *Live) MakeViews() {
	for r := range l.Now().All() {
		if !r.Custom {
			r.View()
		}
	}
}

// Size returns the number of stored objects of a resource and their average size in bytes. ok is false while these are
// unknown.
func (l *Live) Size(group, resource string) (count, size int64, ok bool) {
	r := l.Now().Resource(schema.GroupResource{Group: group, Resource: resource})
	if r == nil {
		return 0, 0, false
	}
	v := r.View()
	if v == nil {
		return 0, 0, false
	}
	n, bytes, ok := v.Size()
	if !ok || n == 0 {
		return 0, 0, ok
	}
	return int64(n), bytes / int64(n), true
}

// Documented returns the built-in resources that are served and their subresources, by the paths of their documents.
func (c *Catalog) Documented() map[string][]string {
	all := map[string][]string{}
	for _, gv := range c.GroupVersions() {
		if gv.Remote != nil {
			continue
		}
		path := "apis/" + gv.GroupVersion.String()
		if gv.Group == "" {
			path = "api/" + gv.Version
		}
		for _, r := range gv.Resources() {
			all[path] = append(all[path], r.Plural)
			for _, s := range r.Subresources {
				all[path] = append(all[path], r.Plural+"/"+s.Name)
			}
		}
	}
	return all
}
