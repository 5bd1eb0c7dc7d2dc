// Package builtin collects the API groups that the server itself serves. Each group has a folder with its resources,
// defaults, validation and columns; the groups do not depend on one another. Deps passes in what they need from the
// rest of the server.
package builtin

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/kanzen-io/kanzen/internal/api/builtin/admissionregistration"
	"github.com/kanzen-io/kanzen/internal/api/builtin/apiextensions"
	"github.com/kanzen-io/kanzen/internal/api/builtin/apiregistration"
	"github.com/kanzen-io/kanzen/internal/api/builtin/apiserverinternal"
	"github.com/kanzen-io/kanzen/internal/api/builtin/apps"
	"github.com/kanzen-io/kanzen/internal/api/builtin/authentication"
	"github.com/kanzen-io/kanzen/internal/api/builtin/authorization"
	"github.com/kanzen-io/kanzen/internal/api/builtin/autoscaling"
	"github.com/kanzen-io/kanzen/internal/api/builtin/batch"
	"github.com/kanzen-io/kanzen/internal/api/builtin/certificates"
	"github.com/kanzen-io/kanzen/internal/api/builtin/coordination"
	"github.com/kanzen-io/kanzen/internal/api/builtin/core"
	"github.com/kanzen-io/kanzen/internal/api/builtin/discovery"
	"github.com/kanzen-io/kanzen/internal/api/builtin/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/api/builtin/lifecycle"
	"github.com/kanzen-io/kanzen/internal/api/builtin/networking"
	"github.com/kanzen-io/kanzen/internal/api/builtin/node"
	"github.com/kanzen-io/kanzen/internal/api/builtin/policy"
	"github.com/kanzen-io/kanzen/internal/api/builtin/rbac"
	"github.com/kanzen-io/kanzen/internal/api/builtin/resource"
	"github.com/kanzen-io/kanzen/internal/api/builtin/scheduling"
	"github.com/kanzen-io/kanzen/internal/api/builtin/storage"
	"github.com/kanzen-io/kanzen/internal/api/builtin/storagemigration"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/features/gated"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

// Deps is the dependencies of the groups, by group.
type Deps struct {
	// Chosen is what is served; nil: what is by default.
	Chosen *Chosen
	// Gates says which features are on.
	Gates features.Set
	// At is the version of Kubernetes that is served, and the oldest that must be able to read what is stored; the zero
	// value: those of this server.
	At features.At
	// Shared has the kinds that control planes have in common; nil: all are made anew.
	Shared *Shared

	AdmissionRegistration admissionregistration.Deps
	APIRegistration       apiregistration.Deps
	Apps                  apps.Deps
	Authentication        authentication.Deps
	Authorization         authorization.Deps
	Batch                 batch.Deps
	Certificates          certificates.Deps
	Core                  core.Deps
	Lifecycle             lifecycle.Deps
	RBAC                  rbac.Deps
	Resource              resource.Deps
}

// Resources returns the built-in resources in the versions that are served (the storage version is always there), in the order in which discovery
// lists the groups.
func Resources(d Deps) []*engine.Resource {
	d.Apps.Gates, d.Certificates.Gates, d.Lifecycle.Gates, d.Resource.Gates = d.Gates, d.Gates, d.Gates, d.Gates
	for _, p := range []*podspec.Policy{&d.Core.Pods, &d.Apps.Pods, &d.Batch.Pods} {
		p.Gates = d.Gates
	}
	if d.At.Emulated == nil {
		d.At = features.Now()
	}
	all := slices.Concat(
		d.own(core.Resources(d.Core)),
		d.own(apiregistration.Resources(d.APIRegistration)),
		d.shared("apps", func() []*engine.Resource { return apps.Resources(d.Apps) }),
		d.own(authentication.Resources(d.Authentication)),
		d.own(authorization.Resources(d.Authorization)),
		d.shared("autoscaling", func() []*engine.Resource { return autoscaling.Resources(autoscaling.Deps{Gates: d.Gates}) }),
		d.shared("batch", func() []*engine.Resource { return batch.Resources(d.Batch) }),
		d.own(certificates.Resources(d.Certificates)),
		d.shared("networking", func() []*engine.Resource { return networking.Resources(networking.Deps{Gates: d.Gates}) }),
		d.shared("policy", policy.Resources),
		d.own(rbac.Resources(d.RBAC)),
		d.shared("storage", func() []*engine.Resource { return storage.Resources(storage.Deps{Gates: d.Gates}) }),
		d.own(admissionregistration.Resources(d.AdmissionRegistration)),
		d.shared("apiextensions", apiextensions.Resources),
		d.shared("scheduling", func() []*engine.Resource { return scheduling.Resources(scheduling.Deps{Gates: d.Gates}) }),
		d.shared("coordination", coordination.Resources),
		d.shared("node", node.Resources),
		d.shared("discovery", func() []*engine.Resource { return discovery.Resources(discovery.Deps{Gates: d.Gates}) }),
		d.own(resource.Resources(d.Resource)),
		d.shared("flowcontrol", flowcontrol.Resources),
		d.shared("storagemigration", func() []*engine.Resource {
			return storagemigration.Resources(storagemigration.Deps{Gates: d.Gates})
		}),
		d.own(lifecycle.Resources(d.Lifecycle)),
		d.shared("apiserverinternal", apiserverinternal.Resources),
	)
	if d.Chosen != nil {
		d.Chosen.emulate(d.At.Emulated, all)
	}
	return d.Chosen.narrow(all)
}

// own completes resources that were made for this control plane.
func (d Deps) own(resources []*engine.Resource) []*engine.Resource {
	for _, r := range resources {
		dropDisabled(r, d.Gates)
		storeAsHub(r, d.At.Compatible)
	}
	return resources
}

// storeAsHub has a resource stored in its hub version if the oldest server that must read it knows that one: an older one
// is named only for its sake. A hub that is less stable than what is stored is never stored.
func storeAsHub(r *engine.Resource, oldest *version.Version) {
	if r.Stored == nil || r.Stored.Decode != nil || apiversion.CompareKubeAwareVersionStrings(r.Hub.Version, r.Stored.Version) <= 0 {
		return
	}
	hub := r.Versions[slices.IndexFunc(r.Versions, func(v *engine.Version) bool { return v.GroupVersion == r.Hub })]
	if since := introduced(hub); since != nil && !since.GreaterThan(oldest) {
		r.Stored = nil
	}
}

// introduced is the first version of Kubernetes with a version of a resource; nil: older than all that can be emulated.
func introduced(v *engine.Version) *version.Version {
	t, ok := v.New().(interface{ APILifecycleIntroduced() (major, minor int) })
	if !ok {
		return nil
	}
	major, minor := t.APILifecycleIntroduced()
	return version.MajorMinor(uint(major), uint(minor))
}

// removed is the first version of Kubernetes without a version of a resource; nil: there is none yet.
func removed(v *engine.Version) *version.Version {
	t, ok := v.New().(interface{ APILifecycleRemoved() (major, minor int) })
	if !ok {
		return nil
	}
	major, minor := t.APILifecycleRemoved()
	return version.MajorMinor(uint(major), uint(minor))
}

// dropDisabled makes the rules of a resource drop what belongs to features that are off, before they do anything else.
func dropDisabled(r *engine.Resource, gates features.Set) {
	if r.Prefix == "" {
		return
	}
	hub := r.Versions[slices.IndexFunc(r.Versions, func(v *engine.Version) bool { return v.GroupVersion == r.Hub })]
	// Most control planes write few kinds, and what drops fields takes time to make.
	dropper := sync.OnceValue(func() *gated.Dropper { return gated.For(reflect.TypeOf(hub.New()), gates.Off) })
	before := func(rules *engine.Rules) {
		create, update := rules.PrepareCreate, rules.PrepareUpdate
		rules.PrepareCreate = func(ctx context.Context, obj engine.Object) {
			dropper().Drop(obj, nil)
			if create != nil {
				create(ctx, obj)
			}
		}
		rules.PrepareUpdate = func(ctx context.Context, obj, old engine.Object) {
			dropper().Drop(obj, old)
			if update != nil {
				update(ctx, obj, old)
			}
		}
	}
	before(&r.Rules)
	for _, s := range r.Subresources {
		if s.Rules != nil {
			before(s.Rules)
		}
	}
}
