package catalog

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Builtin converts the engine's resources for the catalog. A resource that is served in several groups (events) becomes
// one resource in each. What serves refuses is not served, but the server itself still reads and writes it.
func Builtin(eng *engine.Engine, resources []*engine.Resource, serves func(schema.GroupVersionResource) bool) []*Resource {
	var out []*Resource
	for _, r := range resources {
		// There are over a hundred resources in each control plane, and most are never asked for.
		made := sync.OnceValues(func() ([]*engine.Endpoint, error) { return eng.Endpoints(r) })
		var groups []string
		for _, v := range r.Versions {
			if !slices.Contains(groups, v.Group) {
				groups = append(groups, v.Group)
			}
		}
		for _, group := range groups {
			out = append(out, builtin(r, group, made, serves))
		}
	}
	return out
}

func builtin(r *engine.Resource, group string, made func() ([]*engine.Endpoint, error), serves func(schema.GroupVersionResource) bool) *Resource {
	gr := schema.GroupResource{Group: group, Resource: r.Plural}
	endpoint := func(version string) (*engine.Endpoint, error) {
		eps, err := made()
		if err != nil {
			return nil, err
		}
		gvr := gr.WithVersion(version)
		for _, ep := range eps { // one or two: a map would take more than all else
			if ep.GVR == gvr {
				return ep, nil
			}
		}
		return nil, errNoVersion{gr, version}
	}
	out := &Resource{
		GroupResource: gr, Kind: r.Kind, Namespaced: r.Namespaced,
		Endpoint:  endpoint,
		Described: func(string) *engine.Resource { return r },
	}
	for _, v := range r.Versions {
		if v.Group != group {
			continue
		}
		out.Storage = v.Version
		if serves(gr.WithVersion(v.Version)) {
			out.Versions = append(out.Versions, v.Version)
		}
	}
	if r.Hub.Group == group {
		out.Storage = r.Hub.Version
	}
	out.Listed = len(out.Versions) > 0
	out.View = func() *store.View {
		if ep, err := endpoint(out.Storage); err == nil {
			return ep.View()
		}
		return nil
	}
	return out
}

type errNoVersion struct {
	resource schema.GroupResource
	version  string
}

func (e errNoVersion) Error() string {
	return e.resource.String() + " is not served in version " + e.version
}
