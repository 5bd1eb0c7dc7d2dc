// Package rbac is the API group rbac.authorization.k8s.io/v1: roles and bindings. Users cannot grant permissions that
// they do not have: escalation.go has that check, which calls the authorizer through Deps.
package rbac

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var v1 = rbacv1.SchemeGroupVersion

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return engine.Kinds(
		clusterRoleBindings(d),
		clusterRoles(d),
		roleBindings(d),
		roles(d),
	)
}

func roles(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "roles", Kind: "Role",
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[rbacv1.Role, rbacv1.RoleList](v1, nil)},
		Rules: engine.Typed[*rbacv1.Role]{
			Validate:       validateRole,
			ValidateUpdate: validateRoleUpdate,
			BeginCreate: func(ctx context.Context, r *rbacv1.Role, _ bool) (func(bool), error) {
				return kept, d.checkRole(ctx, r.Namespace, r.Name, r.Rules)
			},
			BeginUpdate: func(ctx context.Context, r, old *rbacv1.Role, _ bool) (func(bool), error) {
				if rules.OnlyForCollection(r, old) {
					return kept, nil
				}
				return kept, d.checkRole(ctx, r.Namespace, r.Name, r.Rules)
			},
			CreateOnUpdate: true,
		}.Rules(),
	}
}

func clusterRoles(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "clusterroles", Kind: "ClusterRole",
		Versions: []*engine.Version{engine.VersionOf[rbacv1.ClusterRole, rbacv1.ClusterRoleList](v1, nil)},
		Rules: engine.Typed[*rbacv1.ClusterRole]{
			Validate:       validateClusterRole,
			ValidateUpdate: validateClusterRoleUpdate,
			BeginCreate: func(ctx context.Context, r *rbacv1.ClusterRole, _ bool) (func(bool), error) {
				return kept, d.checkClusterRole(ctx, r, aggregates(r))
			},
			BeginUpdate: func(ctx context.Context, r, old *rbacv1.ClusterRole, _ bool) (func(bool), error) {
				if rules.OnlyForCollection(r, old) {
					return kept, nil
				}
				return kept, d.checkClusterRole(ctx, r, aggregates(r) || aggregates(old))
			},
			CreateOnUpdate: true,
		}.Rules(),
	}
}

func roleBindings(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "rolebindings", Kind: "RoleBinding",
		Namespaced: true,
		Versions: []*engine.Version{engine.VersionOf[rbacv1.RoleBinding, rbacv1.RoleBindingList](v1, func(b *rbacv1.RoleBinding) {
			defaultBinding(&b.RoleRef, b.Subjects)
		})},
		Rules: engine.Typed[*rbacv1.RoleBinding]{
			Validate:       validateRoleBinding,
			ValidateUpdate: validateRoleBindingUpdate,
			BeginCreate: func(ctx context.Context, b *rbacv1.RoleBinding, _ bool) (func(bool), error) {
				return kept, d.checkBinding(ctx, "rolebindings", b.Namespace, b.Name, b.RoleRef)
			},
			BeginUpdate: func(ctx context.Context, b, old *rbacv1.RoleBinding, _ bool) (func(bool), error) {
				if rules.OnlyForCollection(b, old) {
					return kept, nil
				}
				return kept, d.checkBinding(ctx, "rolebindings", b.Namespace, b.Name, b.RoleRef)
			},
			CreateOnUpdate: true,
		}.Rules(),
		Table: roleBindingTable(),
	}
}

func clusterRoleBindings(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "clusterrolebindings", Kind: "ClusterRoleBinding",
		Versions: []*engine.Version{engine.VersionOf[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](v1, func(b *rbacv1.ClusterRoleBinding) {
			defaultBinding(&b.RoleRef, b.Subjects)
		})},
		Rules: engine.Typed[*rbacv1.ClusterRoleBinding]{
			Validate:       validateClusterRoleBinding,
			ValidateUpdate: validateClusterRoleBindingUpdate,
			BeginCreate: func(ctx context.Context, b *rbacv1.ClusterRoleBinding, _ bool) (func(bool), error) {
				return kept, d.checkBinding(ctx, "clusterrolebindings", "", b.Name, b.RoleRef)
			},
			BeginUpdate: func(ctx context.Context, b, old *rbacv1.ClusterRoleBinding, _ bool) (func(bool), error) {
				if rules.OnlyForCollection(b, old) {
					return kept, nil
				}
				return kept, d.checkBinding(ctx, "clusterrolebindings", "", b.Name, b.RoleRef)
			},
			CreateOnUpdate: true,
		}.Rules(),
		Table: clusterRoleBindingTable(),
	}
}

func defaultBinding(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	rules.Default(&ref.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if k := subjects[i].Kind; k == rbacv1.UserKind || k == rbacv1.GroupKind {
			rules.Default(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}
