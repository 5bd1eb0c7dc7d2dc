package catalog

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Builtin converts the engine's resources for the catalog. A resource that is served in several groups (events) becomes
// one resource in each. What serves refuses is not served, but the server itself still reads and writes it.
func Builtin(eng *engine.Engine, resources []*engine.Resource, serves func(schema.GroupVersionResource) bool) ([]*Resource, error) {
	var out []*Resource
	for _, r := range resources {
		eps, err := eng.Endpoints(r)
		if err != nil {
			return nil, err
		}
		groups := map[string][]*engine.Endpoint{}
		var order []string
		for _, ep := range eps {
			if groups[ep.GVR.Group] == nil {
				order = append(order, ep.GVR.Group)
			}
			groups[ep.GVR.Group] = append(groups[ep.GVR.Group], ep)
		}
		for _, group := range order {
			out = append(out, builtin(r, groups[group], serves))
		}
	}
	return out, nil
}

func builtin(r *engine.Resource, eps []*engine.Endpoint, serves func(schema.GroupVersionResource) bool) *Resource {
	// There are one or two, of over a hundred resources in each control plane: a map would take more than all else.
	of := func(version string) *engine.Endpoint {
		for _, ep := range eps {
			if ep.GVR.Version == version {
				return ep
			}
		}
		return nil
	}
	storage := eps[len(eps)-1]
	made := &Resource{
		GroupResource: storage.GVR.GroupResource(), Kind: r.Kind, Namespaced: r.Namespaced,
		Endpoint: func(version string) (*engine.Endpoint, error) {
			if ep := of(version); ep != nil {
				return ep, nil
			}
			return nil, errNoVersion{storage.GVR.GroupResource(), version}
		},
		View:      func() *store.View { return storage.View() },
		Described: func(string) *engine.Resource { return r },
	}
	for _, ep := range eps {
		if serves(ep.GVR) {
			made.Versions = append(made.Versions, ep.GVR.Version)
		}
	}
	made.Listed = len(made.Versions) > 0
	made.Storage = storage.GVR.Version
	if r.Hub.Group == made.Group && of(r.Hub.Version) != nil {
		made.Storage = r.Hub.Version
	}
	return made
}

type errNoVersion struct {
	resource schema.GroupResource
	version  string
}

func (e errNoVersion) Error() string {
	return e.resource.String() + " is not served in version " + e.version
}
