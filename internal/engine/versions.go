package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// versions gives admission the versions in which a resource is served.
type versions struct{ ep *Endpoint }

// Versions returns the versions in which the endpoint's resource is served.
func (ep *Endpoint) Versions() admission.Versions { return versions{ep} }

// All is part of admission.Versions. A Resource never changes, so the result,
// which every write needs, is computed once.
func (v versions) All(subresource string) []admission.Version {
	a := v.ep.prepared()
	a.mu.Lock()
	defer a.mu.Unlock()
	all, ok := a.all[subresource]
	if !ok {
		all = v.of(subresource)
		a.all[subresource] = all
	}
	return all
}

func (v versions) of(subresource string) []admission.Version {
	out := make([]admission.Version, 0, len(v.ep.R.Versions))
	for _, of := range v.ep.R.Versions {
		kind := of.WithKind(v.ep.R.Kind)
		for _, s := range v.ep.R.Subresources {
			if s.Name == subresource {
				kind = subKind(s, kind)
			}
		}
		out = append(out, admission.Version{Resource: of.WithResource(v.ep.R.Plural), Kind: kind})
	}
	return out
}

// Convert is part of admission.Versions. Objects of other kinds (a scale, a
// binding) have one version, and are returned as they are.
func (v versions) Convert(ctx context.Context, obj runtime.Object, to schema.GroupVersionKind) (runtime.Object, error) {
	from := obj.GetObjectKind().GroupVersionKind()
	if from == to || !v.own(from) {
		return obj, nil
	}
	return converter{v.ep, ctx}.convert(obj, from, to)
}

// Hub is part of admission.Versions.
func (v versions) Hub(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	return v.Convert(ctx, obj, v.ep.hub.WithKind(v.ep.R.Kind))
}

// Complete is part of admission.Versions.
func (v versions) Complete(obj runtime.Object) error {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if !v.own(gvk) {
		return nil
	}
	of := v.ep.version(gvk.GroupVersion())
	if prune := of.Prune; prune != nil {
		if _, err := prune(obj.(Object)); err != nil {
			return err
		}
	}
	if of.Default != nil {
		of.Default(obj.(Object))
	}
	return nil
}

// Types is part of admission.Versions.
func (v versions) Types() (managedfields.TypeConverter, error) {
	if v.ep.R.Types == nil {
		return v.ep.e.Types, nil
	}
	return v.ep.R.Types()
}

// own says that a kind is the resource's own, in one of its versions.
func (v versions) own(gvk schema.GroupVersionKind) bool {
	return gvk.Kind == v.ep.R.Kind && v.ep.version(gvk.GroupVersion()) != nil
}
