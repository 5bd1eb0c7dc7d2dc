// Package authz decides whether a user may make a request. The first authorizer in a list that has an opinion decides;
// a request on which none has an opinion is denied. RBAC is in the package rbac.
//
// The package also serves the access reviews, with which clients ask for a decision without making the request.
package authz

import (
	"context"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// Decision is an authorizer's decision on a request.
type Decision int

// Decisions. The zero value denies.
const (
	Deny Decision = iota
	Allow
	NoOpinion
)

// Authorizer decides on one request. The reason is text for people, in error messages and audit logs. With an error,
// the decision may be less permissive than it should be; Allow is still valid.
type Authorizer interface {
	Authorize(ctx context.Context, a *Attributes) (Decision, string, error)
}

// Attributes are the attributes of a request that authorizers see: the user, the verb and the object.
type Attributes struct {
	User user.Info
	Verb string
	// IsResource is true for an API resource, false for another path.
	IsResource                   bool
	Path                         string
	Namespace                    string
	Group, Version               string
	Resource, Subresource, Name  string
	FieldSelector, LabelSelector string // as sent; empty if they do not parse
}

// ForRequest returns the attributes of a request.
func ForRequest(u user.Info, i *request.Info) *Attributes {
	return &Attributes{
		User: u, Verb: i.Verb, IsResource: i.IsResource, Path: i.Path,
		Namespace: i.Namespace, Group: i.Group, Version: i.Version,
		Resource: i.Resource, Subresource: i.Subresource, Name: i.Name,
		FieldSelector: i.FieldSelector, LabelSelector: i.LabelSelector,
	}
}

// Union calls each authorizer in order until one has an opinion.
type Union []Named

// Named is an authorizer with the name that its configuration gives it.
type Named struct {
	Name string
	Authorizer
}

// Authorize returns the first opinion; if there is none, all reasons, with the names of those who gave them, and errors.
func (u Union) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	var reasons []string
	var errs []error
	for _, authorizer := range u {
		decision, reason, err := authorizer.Authorize(ctx, a)
		if err != nil {
			errs = append(errs, err)
		}
		if decision != NoOpinion {
			return decision, reason, err
		}
		if reason != "" {
			reasons = append(reasons, authorizer.Name+": "+reason)
		}
	}
	return NoOpinion, strings.Join(reasons, "\n"), utilerrors.NewAggregate(errs)
}

// Masters allows members of the group system:masters everything. It comes first, so that no mistake in later
// authorizers locks everyone out.
type Masters struct{}

// Authorize has an opinion only on members of the group.
func (Masters) Authorize(_ context.Context, a *Attributes) (Decision, string, error) {
	if isMaster(a) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

func isMaster(a *Attributes) bool {
	return a.User != nil && slices.Contains(a.User.GetGroups(), user.SystemPrivilegedGroup)
}

// AlwaysAllow is the mode AlwaysAllow.
type AlwaysAllow struct{}

// Authorize allows every request.
func (AlwaysAllow) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return Allow, "", nil
}

// RulesFor returns a rule that allows everything.
func (AlwaysAllow) RulesFor(user.Info, string) ([]rbacv1.PolicyRule, error) {
	all := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}, nil
}

// AlwaysDeny is the mode AlwaysDeny.
type AlwaysDeny struct{}

// Authorize has no opinion, as upstream, so that a later mode may still allow the request.
func (AlwaysDeny) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return NoOpinion, "Everything is forbidden.", nil
}
