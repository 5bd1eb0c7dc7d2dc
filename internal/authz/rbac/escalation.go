package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/request"
)

// ConfirmNoEscalation says whether a user has all the rules itself, in a
// namespace or cluster-wide. The error names what is missing.
func (x *Index) ConfirmNoEscalation(_ context.Context, u user.Info, namespace string, rules []rbacv1.PolicyRule) error {
	owned, unresolved := x.RulesFor(u, namespace)
	missing := uncovered(owned, rules)
	if len(missing) == 0 {
		return nil
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		u.GetName(), u.GetGroups(), strings.Join(describe(missing), "\n"))
	if unresolved != nil {
		text += fmt.Sprintf("; resolution errors: %v", unresolved)
	}
	return errors.New(text)
}

// Guard decides who may write roles and bindings: nobody may give what they do
// not have, unless they have the verb "escalate" on the role or "bind" on what
// is bound. It reads user and request off the context; its errors are
// Forbidden ones, or say that a role does not exist.
type Guard struct {
	Index      *Index
	Authorizer authz.Authorizer
}

// Role checks the rules of a Role that is about to be written.
func (g *Guard) Role(ctx context.Context, r *rbacv1.Role) error {
	if isMaster(ctx) || g.mayEscalate(ctx) {
		return nil
	}
	return g.confirm(ctx, "roles", r.Name, r.Rules)
}

// ClusterRole checks a ClusterRole that is about to be written over old, which
// is nil on creation. Aggregation can gather anything, so that who uses or
// changes it must have everything.
func (g *Guard) ClusterRole(ctx context.Context, r, old *rbacv1.ClusterRole) error {
	if isMaster(ctx) || g.mayEscalate(ctx) {
		return nil
	}
	if err := g.confirm(ctx, "clusterroles", r.Name, r.Rules); err != nil {
		return err
	}
	if !aggregates(r) && !aggregates(old) {
		return nil
	}
	all := []string{"*"}
	everything := []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}
	if err := g.confirm(ctx, "clusterroles", r.Name, everything); err != nil {
		return forbidden("clusterroles", r.Name, errors.New("must have cluster-admin privileges to use the aggregationRule"))
	}
	return nil
}

// RoleBinding checks the role that a RoleBinding in a namespace refers to.
func (g *Guard) RoleBinding(ctx context.Context, namespace string, b *rbacv1.RoleBinding) error {
	return g.binding(ctx, "rolebindings", namespace, b.Name, b.RoleRef)
}

// ClusterRoleBinding checks the role that a ClusterRoleBinding refers to.
func (g *Guard) ClusterRoleBinding(ctx context.Context, b *rbacv1.ClusterRoleBinding) error {
	return g.binding(ctx, "clusterrolebindings", "", b.Name, b.RoleRef)
}

func (g *Guard) binding(ctx context.Context, resource, namespace, name string, ref rbacv1.RoleRef) error {
	if isMaster(ctx) || g.mayBind(ctx, namespace, ref) {
		return nil
	}
	rules, err := g.Index.RoleRules(ref, namespace)
	if err != nil {
		return err
	}
	return g.confirm(ctx, resource, name, rules)
}

func (g *Guard) confirm(ctx context.Context, resource, name string, rules []rbacv1.PolicyRule) error {
	u := request.UserFrom(ctx)
	if u == nil {
		return forbidden(resource, name, errors.New("no user on context"))
	}
	namespace := ""
	if i := request.InfoFrom(ctx); i != nil {
		namespace = i.Namespace
	}
	if err := g.Index.ConfirmNoEscalation(ctx, u, namespace, rules); err != nil {
		return forbidden(resource, name, err)
	}
	return nil
}

// mayEscalate says whether the role of the request may get any rules.
func (g *Guard) mayEscalate(ctx context.Context) bool {
	u, i := request.UserFrom(ctx), request.InfoFrom(ctx)
	if u == nil || i == nil || !i.IsResource || i.Group != rbacv1.GroupName || i.Resource != "roles" && i.Resource != "clusterroles" {
		return false
	}
	decision, _, _ := g.Authorizer.Authorize(ctx, &authz.Attributes{
		User: u, Verb: "escalate", IsResource: true, Group: i.Group, Version: "*",
		Resource: i.Resource, Name: i.Name, Namespace: i.Namespace,
	})
	return decision == authz.Allow
}

// mayBind says whether a role may be bound in a namespace whatever its rules are.
func (g *Guard) mayBind(ctx context.Context, namespace string, ref rbacv1.RoleRef) bool {
	u := request.UserFrom(ctx)
	resource := map[string]string{"ClusterRole": "clusterroles", "Role": "roles"}[ref.Kind]
	if u == nil || resource == "" {
		return false
	}
	decision, _, _ := g.Authorizer.Authorize(ctx, &authz.Attributes{
		User: u, Verb: "bind", IsResource: true, Group: ref.APIGroup, Version: "*",
		Resource: resource, Name: ref.Name, Namespace: namespace,
	})
	return decision == authz.Allow
}

// isMaster says whether the request is by the group that may do everything,
// also where RBAC is not the mode of authorization.
func isMaster(ctx context.Context) bool {
	u := request.UserFrom(ctx)
	return u != nil && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

func aggregates(r *rbacv1.ClusterRole) bool {
	return r != nil && r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}

func forbidden(resource, name string, err error) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}, name, err)
}

// OnlyForGarbageCollection says whether an update changes nothing but what the
// garbage collector needs to (owners and finalizers). Such updates need no
// permission of the Guard.
func OnlyForGarbageCollection[T interface {
	runtime.Object
	metav1.Object
}](obj, old T) bool {
	changed := obj.DeepCopyObject().(T)
	changed.SetOwnerReferences(old.GetOwnerReferences())
	changed.SetFinalizers(old.GetFinalizers())
	changed.SetManagedFields(old.GetManagedFields())
	return equality.Semantic.DeepEqual(changed, old)
}
