package controlplane

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// This file makes roles and bindings that older clusters did not have out of those that had their part, so that what an
// administrator has changed in these stays so.

// copies are made before the roles and bindings that every cluster has.
func (b *Bootstrapper) copies() []task {
	out := []task{b.copyOf("clusterrolebindings", "system:discovery", "system:public-info-viewer", func(from, to engine.Object) engine.Object {
		binding := to.(*rbacv1.ClusterRoleBinding).DeepCopy()
		binding.Subjects = from.(*rbacv1.ClusterRoleBinding).Subjects
		binding.Labels, binding.Annotations = from.GetLabels(), from.GetAnnotations()
		return binding
	})}
	for _, name := range []string{"admin", "edit", "view"} {
		out = append(out, b.copyOf("clusterroles", name, "system:aggregate-to-"+name, func(from, to engine.Object) engine.Object {
			old := from.(*rbacv1.ClusterRole)
			if old.AggregationRule != nil {
				return nil // its rules are not its own
			}
			return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: to.GetName(), Labels: old.Labels, Annotations: old.Annotations}, Rules: old.Rules}
		}))
	}
	return out
}

// copyOf makes an object out of another one, if that exists and the object does not; make returns nil if it must not.
func (b *Bootstrapper) copyOf(resource, from, to string, make func(from, to engine.Object) engine.Object) task {
	return func(ctx context.Context) error {
		gr := schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}
		ep, err := b.Endpoint(gr)
		if err != nil {
			return err
		}
		if _, err := ep.GetObject(ctx, "", to); !apierrors.IsNotFound(err) {
			return err
		}
		source, err := ep.GetObject(ctx, "", from)
		if apierrors.IsNotFound(err) {
			return nil // the cluster is new
		}
		if err != nil {
			return err
		}
		wanted := b.policyObject(resource, to)
		if wanted == nil {
			return nil
		}
		if obj := make(source, wanted); obj != nil {
			return b.ensure(ctx, gr, obj, ManagerServer)
		}
		return nil
	}
}

// policyObject returns an object of the policy that every cluster starts with; nil if it has none of that name.
func (b *Bootstrapper) policyObject(resource, name string) engine.Object {
	if resource == "clusterroles" {
		if n := slices.IndexFunc(b.Policy.ClusterRoles, func(r *rbacv1.ClusterRole) bool { return r.Name == name }); n >= 0 {
			return b.Policy.ClusterRoles[n]
		}
		return nil
	}
	if n := slices.IndexFunc(b.Policy.ClusterRoleBindings, func(r *rbacv1.ClusterRoleBinding) bool { return r.Name == name }); n >= 0 {
		return b.Policy.ClusterRoleBindings[n]
	}
	return nil
}
