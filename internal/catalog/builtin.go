package catalog

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Builtin converts the engine's resources for the catalog. A resource that is served in several groups (events) becomes
// one resource in each.
func Builtin(eng *engine.Engine, resources []*engine.Resource) ([]*Resource, error) {
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
			out = append(out, builtin(r, groups[group]))
		}
	}
	return out, nil
}

func builtin(r *engine.Resource, eps []*engine.Endpoint) *Resource {
	byVersion := map[string]*engine.Endpoint{}
	storage := eps[len(eps)-1]
	made := &Resource{
		GroupResource: storage.GVR.GroupResource(), Kind: r.Kind, Namespaced: r.Namespaced, Listed: true,
		Endpoint: func(version string) (*engine.Endpoint, error) {
			if ep := byVersion[version]; ep != nil {
				return ep, nil
			}
			return nil, errNoVersion{storage.GVR.GroupResource(), version}
		},
		View:      func() *store.View { return storage.View() },
		Described: func(string) *engine.Resource { return r },
	}
	for _, ep := range eps {
		byVersion[ep.GVR.Version] = ep
		made.Versions = append(made.Versions, ep.GVR.Version)
	}
	made.Storage = storage.GVR.Version
	if r.Hub.Group == made.Group && slices.Contains(made.Versions, r.Hub.Version) {
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
