package server

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/authz/rbac"
	"github.com/kanzen-io/kanzen/internal/engine"
)

// rbacAuthorizer is the index of roles and bindings, and what feeds it.
type rbacAuthorizer struct {
	*feed
	index *rbac.Index
}

func newRBAC() *rbacAuthorizer {
	x := rbac.NewIndex()
	of := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}
	}
	return &rbacAuthorizer{index: x, feed: newFeed(
		source{of("roles"), func(o engine.Object) { x.SetRole(o.(*rbacv1.Role)) }, x.DeleteRole},
		source{of("clusterroles"), func(o engine.Object) { x.SetClusterRole(o.(*rbacv1.ClusterRole)) },
			func(_, name string) { x.DeleteClusterRole(name) }},
		source{of("rolebindings"), func(o engine.Object) { x.SetRoleBinding(o.(*rbacv1.RoleBinding)) }, x.DeleteRoleBinding},
		source{of("clusterrolebindings"), func(o engine.Object) { x.SetClusterRoleBinding(o.(*rbacv1.ClusterRoleBinding)) },
			func(_, name string) { x.DeleteClusterRoleBinding(name) }},
	)}
}

// Authorize is part of authz.Authorizer. Until the roles have been read nobody
// can be refused anything: clients take that for the truth, and drop what they
// were about to resume. So requests for resources wait. Others do not, because
// health must be answered, one way or the other, while etcd is not there.
func (r *rbacAuthorizer) Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.IsResource {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return authz.NoOpinion, "", ctx.Err()
		}
	}
	return r.index.Authorize(ctx, a)
}

// RulesFor is part of authz.RuleResolver.
func (r *rbacAuthorizer) RulesFor(u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	return r.index.RulesFor(u, namespace)
}
