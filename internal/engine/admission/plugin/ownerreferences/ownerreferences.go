// Package ownerreferences lets only users who may delete an object change its
// owners, and only users who may set an owner's finalizers block the owner's
// deletion.
package ownerreferences

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "OwnerReferencesPermissionEnforcement"

// Resources finds the resources of a kind; none is an error.
type Resources func(gvk schema.GroupVersionKind) ([]admission.Resource, error)

type plugin struct {
	authorizer authz.Authorizer
	resources  Resources
}

// New makes the plugin.
func New(authorizer authz.Authorizer, resources Resources) admission.Plugin {
	return admission.Plugin{
		Name: Name, Validator: &plugin{authorizer, resources},
		On: []admission.Operation{admission.Create, admission.Update},
	}
}

func (p *plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	// An update of a pod's status cannot change its owners, although old
	// kubelets send changes.
	if a.Is("", "pods", "status") {
		return nil
	}
	owners, ok := ownersOf(a.Object)
	if !ok {
		return nil
	}
	had, _ := ownersOf(a.OldObject)
	if slices.EqualFunc(owners, had, func(x, y metav1.OwnerReference) bool { return apiequality.Semantic.DeepEqual(x, y) }) {
		return nil
	}
	if a.Operation != admission.Create {
		if err := p.may(ctx, a, "delete", a.Resource, a.Subresource, a.Namespace, a.Name); err != nil {
			return admission.Forbidden(a, fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %w", err))
		}
	}
	blocking := newlyBlocking(owners, had)
	anything := schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}
	if len(blocking) == 0 || p.may(ctx, a, "update", anything, "finalizers", "", "*") == nil {
		return nil
	}
	for _, owner := range blocking {
		if err := p.mayFinalize(ctx, a, owner); err != nil {
			return admission.Forbidden(a, err)
		}
	}
	return nil
}

func (p *plugin) mayFinalize(ctx context.Context, a *admission.Attributes, owner metav1.OwnerReference) error {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	var resources []admission.Resource
	if err == nil {
		resources, err = p.resources(gv.WithKind(owner.Kind))
	}
	if err != nil {
		return fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %w", owner.APIVersion, owner.Kind, err)
	}
	for _, r := range resources {
		namespace := ""
		if r.Namespaced {
			namespace = a.Namespace // an owner is in the namespace of its dependents
		}
		if err := p.may(ctx, a, "update", r.GroupVersionResource, "finalizers", namespace, owner.Name); err != nil {
			return fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %w", err)
		}
	}
	return nil
}

// may checks whether the user of a write may also do something else.
func (p *plugin) may(ctx context.Context, a *admission.Attributes, verb string, gvr schema.GroupVersionResource, subresource, namespace, name string) error {
	decision, reason, err := p.authorizer.Authorize(ctx, &authz.Attributes{
		User: a.User, Verb: verb, IsResource: true, Namespace: namespace, Name: name,
		Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Subresource: subresource,
	})
	if decision == authz.Allow {
		return nil
	}
	return errors.Join(errors.New(reason), err)
}

func ownersOf(obj runtime.Object) ([]metav1.OwnerReference, bool) {
	if obj == nil {
		return nil, false
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, false
	}
	return m.GetOwnerReferences(), true
}

// newlyBlocking returns the references that block their owner's deletion and
// did not before.
func newlyBlocking(refs, old []metav1.OwnerReference) (out []metav1.OwnerReference) {
	blocks := func(r metav1.OwnerReference) bool { return r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion }
	for _, r := range refs {
		did := slices.ContainsFunc(old, func(o metav1.OwnerReference) bool { return o.UID == r.UID && blocks(o) })
		if blocks(r) && !did {
			out = append(out, r)
		}
	}
	return out
}
