package modes

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/access/authz/rbac"
	"github.com/kanzen-io/kanzen/internal/request/scope"
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
		source{of("roles"), func(_ int64, o metav1.Object) { x.SetRole(o.(*rbacv1.Role)) },
			func(_ int64, namespace, name string) { x.DeleteRole(namespace, name) }, nil},
		source{of("clusterroles"), func(_ int64, o metav1.Object) { x.SetClusterRole(o.(*rbacv1.ClusterRole)) },
			func(_ int64, _, name string) { x.DeleteClusterRole(name) }, nil},
		source{of("rolebindings"), func(_ int64, o metav1.Object) { x.SetRoleBinding(o.(*rbacv1.RoleBinding)) },
			func(_ int64, namespace, name string) { x.DeleteRoleBinding(namespace, name) }, nil},
		source{of("clusterrolebindings"), func(_ int64, o metav1.Object) { x.SetClusterRoleBinding(o.(*rbacv1.ClusterRoleBinding)) },
			func(_ int64, _, name string) { x.DeleteClusterRoleBinding(name) }, nil},
	)}
}

// Authorize is part of authz.Authorizer. Until the roles have been read, no request can be denied: clients would trust
// the denial and, for example, drop a watch that they were about to resume. So requests for resources wait. Other
// requests do not wait, because health checks must be answered even while etcd is unavailable: until then everyone may ask
// for them, as the role system:public-info-viewer has it by default.
func (r *RBAC) Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.IsResource {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return authz.NoOpinion, "", ctx.Err()
		}
	}
	if isHealth(a) {
		select {
		case <-r.ready:
		default:
			return authz.Allow, "the roles have not been read yet", nil
		}
	}
	return r.Index.Authorize(ctx, a)
}

// isHealth reports whether a request asks for the health of the server.
func isHealth(a *authz.Attributes) bool {
	if a.IsResource || a.Verb != "get" {
		return false
	}
	root, _, _ := strings.Cut(strings.TrimPrefix(a.Path, "/"), "/")
	return strings.HasPrefix(a.Path, "/") && (root == "healthz" || root == "livez" || root == "readyz")
}

// RulesFor is part of authz.RuleResolver.
func (r *RBAC) RulesFor(u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	return r.Index.RulesFor(u, namespace)
}

// Scope is part of authz.Scoper. Authorize was asked before, which waits until the roles have been read.
func (r *RBAC) Scope(a *authz.Attributes) scope.Set { return r.Index.Scope(a) }
