package catalog

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// This file implements admission's lookups of kinds.

// ResourcesOf returns the resources that serve a kind; an error if there are none.
func (l *Live) ResourcesOf(gvk schema.GroupVersionKind) ([]admission.Resource, error) {
	var out []admission.Resource
	now := l.Now()
	if remote := now.Remote(gvk.GroupVersion()); remote != nil {
		if out = remote.ofKind(gvk.Kind); len(out) == 0 {
			return nil, ErrNoResource("of kind " + gvk.String())
		}
		return out, nil
	}
	for _, r := range now.Kind(gvk) {
		out = append(out, admission.Resource{GroupVersionResource: r.WithVersion(gvk.Version), Namespaced: r.Namespaced})
	}
	if len(out) == 0 {
		return nil, ErrNoResource("of kind " + gvk.String())
	}
	return out, nil
}

// Params returns the parameters of policies, of any served kind.
type Params struct{ Raw *Raw }

// find returns the endpoint of a kind, in any of its versions; nil if it is not served.
func (p Params) find(kind schema.GroupVersionKind) *engine.Endpoint {
	for _, r := range p.Raw.Now().Kind(kind) {
		version := r.Storage
		if !r.Custom && slices.Contains(r.Versions, kind.Version) {
			version = kind.Version
		}
		if ep, err := r.Endpoint(version); err == nil && ep.View() != nil {
			return ep
		}
	}
	return nil
}

// Namespaced is part of policy.Params.
func (p Params) Namespaced(kind schema.GroupVersionKind) (namespaced, ok bool) {
	ep := p.find(kind)
	return ep != nil && ep.R.Namespaced, ep != nil
}

// Get is part of policy.Params.
func (p Params) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (admission.Object, error) {
	ep := p.find(kind)
	if ep == nil {
		return nil, ErrNoResource(kind.String())
	}
	obj, err := p.Raw.Seen(ctx, ep.GVR.GroupResource(), namespace, name)
	if err != nil {
		return nil, err
	}
	return inVersion(ctx, ep, obj, kind)
}

// List is part of policy.Params.
func (p Params) List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]admission.Object, error) {
	ep := p.find(kind)
	if ep == nil {
		return nil, ErrNoResource(kind.String())
	}
	objs, err := ep.SeenObjects(ctx, namespace)
	for i := range objs {
		if objs[i], err = inVersion(ctx, ep, objs[i], kind); err != nil {
			return nil, err
		}
	}
	return objs, err
}

// inVersion makes a version of a shared object.
func inVersion(ctx context.Context, ep *engine.Endpoint, obj admission.Object, kind schema.GroupVersionKind) (admission.Object, error) {
	if obj.GetObjectKind().GroupVersionKind() == kind {
		return obj, nil
	}
	// The object is shared, and conversion reuses what it is given.
	out, err := ep.Versions().Convert(ctx, obj.DeepCopyObject(), kind)
	if err != nil {
		return nil, err
	}
	return out.(admission.Object), nil
}
