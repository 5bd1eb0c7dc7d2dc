package rbac

import (
	"context"
	"errors"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz/rbac"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Deps is what this group needs from the authorizer. Checks apply to the context's user.
type Deps struct {
	// MayEscalate reports whether the user may write the named role whatever it grants: verb escalate on roles or
	// clusterroles.
	MayEscalate func(ctx context.Context, resource, namespace, name string) bool
	// MayBind reports whether the user may bind a role whatever it grants: verb bind on the role, in the namespace of
	// the binding.
	MayBind func(ctx context.Context, ref rbacv1.RoleRef, namespace string) bool
	// ConfirmNoEscalation returns an error that lists permissions in the rules that the user does not have in the
	// namespace.
	ConfirmNoEscalation func(ctx context.Context, namespace string, rules []rbacv1.PolicyRule) error
	// RulesOf returns the rules of a role in a namespace, or a NotFound error.
	RulesOf func(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error)
}

// By returns what lets authorizers decide: require returns an error if the context's user may not do what a request describes, and index has
// the rules.
func By(require func(ctx context.Context, i *request.Info) error, index *rbac.Index) Deps {
	may := func(ctx context.Context, verb, group, resource, namespace, name string) bool {
		return require(ctx, &request.Info{IsResource: true, Verb: verb, Group: group, Version: "*", Resource: resource, Namespace: namespace, Name: name}) == nil
	}
	return Deps{
		MayEscalate: func(ctx context.Context, resource, namespace, name string) bool {
			return may(ctx, "escalate", rbacv1.GroupName, resource, namespace, name)
		},
		MayBind: func(ctx context.Context, ref rbacv1.RoleRef, namespace string) bool {
			resource, ok := map[string]string{"ClusterRole": "clusterroles", "Role": "roles"}[ref.Kind] // there is nothing to bind of another kind
			return ok && may(ctx, "bind", ref.APIGroup, resource, namespace, ref.Name)
		},
		ConfirmNoEscalation: func(ctx context.Context, namespace string, rules []rbacv1.PolicyRule) error {
			return index.ConfirmNoEscalation(ctx, request.UserFrom(ctx), namespace, rules)
		},
		RulesOf: func(_ context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
			return index.RoleRules(ref, namespace)
		},
	}
}

// kept ends a write that acquired nothing.
func kept(bool) {}

// everything is what a user must have to let a role collect the rules of others.
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

func (d Deps) checkRole(ctx context.Context, namespace, name string, rules []rbacv1.PolicyRule) error {
	if d.ConfirmNoEscalation == nil || isPrivileged(ctx) || d.MayEscalate(ctx, "roles", namespace, name) {
		return nil
	}
	if err := d.ConfirmNoEscalation(ctx, namespace, rules); err != nil {
		return forbidden("roles", name, err)
	}
	return nil
}

func (d Deps) checkClusterRole(ctx context.Context, r *rbacv1.ClusterRole, aggregates bool) error {
	if d.ConfirmNoEscalation == nil || isPrivileged(ctx) || d.MayEscalate(ctx, "clusterroles", "", r.Name) {
		return nil
	}
	if err := d.ConfirmNoEscalation(ctx, "", r.Rules); err != nil {
		return forbidden("clusterroles", r.Name, err)
	}
	if aggregates && d.ConfirmNoEscalation(ctx, "", everything) != nil {
		return forbidden("clusterroles", r.Name, errors.New("only a cluster administrator may use aggregationRule"))
	}
	return nil
}

func (d Deps) checkBinding(ctx context.Context, resource, namespace, name string, ref rbacv1.RoleRef) error {
	if d.ConfirmNoEscalation == nil || isPrivileged(ctx) || d.MayBind(ctx, ref, namespace) {
		return nil
	}
	rules, err := d.RulesOf(ctx, ref, namespace)
	if err != nil {
		return err
	}
	if err := d.ConfirmNoEscalation(ctx, namespace, rules); err != nil {
		return forbidden(resource, name, err)
	}
	return nil
}

func forbidden(resource, name string, err error) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}, name, err)
}

// isPrivileged reports whether the user skips authorization, or there is no user because the server itself writes.
func isPrivileged(ctx context.Context) bool {
	u := request.UserFrom(ctx)
	return u == nil || slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

func aggregates(r *rbacv1.ClusterRole) bool {
	return r.AggregationRule != nil && len(r.AggregationRule.ClusterRoleSelectors) > 0
}
