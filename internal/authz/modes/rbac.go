package modes

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/authz/rbac"
)

// RBAC is the index of roles and bindings and its feed.
type RBAC struct {
	*feed
	Index *rbac.Index
}

// Ready returns a channel that is closed when all roles and bindings have been read once.
func (r *RBAC) Ready() <-chan struct{} { return r.ready }

func newRBAC() *RBAC {
	x := rbac.NewIndex()
	of := func(resource string) schema.GroupResource {
		return schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}
	}
	return &RBAC{Index: x, feed: newFeed(
		source{of("roles"), func(o metav1.Object) { x.SetRole(o.(*rbacv1.Role)) }, x.DeleteRole},
		source{of("clusterroles"), func(o metav1.Object) { x.SetClusterRole(o.(*rbacv1.ClusterRole)) },
			func(_, name string) { x.DeleteClusterRole(name) }},
		source{of("rolebindings"), func(o metav1.Object) { x.SetRoleBinding(o.(*rbacv1.RoleBinding)) }, x.DeleteRoleBinding},
		source{of("clusterrolebindings"), func(o metav1.Object) { x.SetClusterRoleBinding(o.(*rbacv1.ClusterRoleBinding)) },
			func(_, name string) { x.DeleteClusterRoleBinding(name) }},
	)}
}

// Authorize is part of authz.Authorizer. Until the roles have been read, no request can be denied: clients would trust
// the denial and, for example, drop a watch that they were about to resume. So requests for resources wait. Other
// requests do not wait, because health checks must be answered even while etcd is unavailable.
func (r *RBAC) Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.IsResource {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return authz.NoOpinion, "", ctx.Err()
		}
	}
	return r.Index.Authorize(ctx, a)
}

// RulesFor is part of authz.RuleResolver.
func (r *RBAC) RulesFor(u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	return r.Index.RulesFor(u, namespace)
}
