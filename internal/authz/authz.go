// Package authz decides whether a user may do what a request asks for. An
// Authorizer has an opinion or none; the first opinion of a list counts, and
// who has no opinion's favour is refused. RBAC is in the package rbac.
//
// The package also serves the reviews by which clients ask for decisions
// without making the request.
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

// Decision is what an authorizer thinks of a request.
type Decision int

// Decisions. The zero value refuses.
const (
	Deny Decision = iota
	Allow
	NoOpinion
)

// Authorizer decides about one request. The reason is for people: it goes
// into refusals and audit logs. An error says that the decision may be worse
// than it should be; Allow counts in spite of it.
type Authorizer interface {
	Authorize(ctx context.Context, a *Attributes) (Decision, string, error)
}

// Attributes is who wants to do what.
type Attributes struct {
	User user.Info
	Verb string
	// IsResource says that the request is for an API resource and not just a path.
	IsResource                   bool
	Path                         string
	Namespace                    string
	Group, Version               string
	Resource, Subresource, Name  string
	FieldSelector, LabelSelector string // as sent; empty where they did not parse
}

// ForRequest are the attributes of a request.
func ForRequest(u user.Info, i *request.Info) *Attributes {
	return &Attributes{
		User: u, Verb: i.Verb, IsResource: i.IsResource, Path: i.Path,
		Namespace: i.Namespace, Group: i.Group, Version: i.Version,
		Resource: i.Resource, Subresource: i.Subresource, Name: i.Name,
		FieldSelector: i.FieldSelector, LabelSelector: i.LabelSelector,
	}
}

// Union asks each authorizer in turn until one has an opinion.
type Union []Authorizer

// Authorize returns the first opinion; without one, all reasons and errors.
func (u Union) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	var reasons []string
	var errs []error
	for _, authorizer := range u {
		decision, reason, err := authorizer.Authorize(ctx, a)
		if err != nil {
			errs = append(errs, err)
		}
		if reason != "" {
			reasons = append(reasons, reason)
		}
		if decision != NoOpinion {
			return decision, reason, err
		}
	}
	return NoOpinion, strings.Join(reasons, "\n"), utilerrors.NewAggregate(errs)
}

// Masters allows the group system:masters everything. It comes first, so that
// no mistake in what follows locks everyone out.
type Masters struct{}

// Authorize has an opinion on members of the group only.
func (Masters) Authorize(_ context.Context, a *Attributes) (Decision, string, error) {
	if a.User != nil && slices.Contains(a.User.GetGroups(), user.SystemPrivilegedGroup) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

// AlwaysAllow is the mode of that name.
type AlwaysAllow struct{}

// Authorize allows.
func (AlwaysAllow) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return Allow, "", nil
}

// RulesFor returns a rule for everything.
func (AlwaysAllow) RulesFor(user.Info, string) ([]rbacv1.PolicyRule, error) {
	all := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}, nil
}

// AlwaysDeny is the mode of that name.
type AlwaysDeny struct{}

// Authorize refuses; like upstream without an opinion, so that a mode that
// follows may still allow.
func (AlwaysDeny) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return NoOpinion, "Everything is forbidden.", nil
}
