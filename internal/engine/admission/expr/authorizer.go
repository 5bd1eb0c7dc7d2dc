package expr

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/kanzen-io/kanzen/internal/access/authz"
)

func (r resource) GetName() string                          { return r.Name }
func (r resource) GetNamespace() string                     { return r.Namespace }
func (r resource) GetResource() schema.GroupVersionResource { return r.Resource }
func (r resource) GetSubresource() string                   { return r.Subresource }

// cachingAuthorizer answers the checks of "authorizer" in expressions by this
// server's authorizer, each once. It lives as long as a write. Kubernetes'
// function library for CEL calls an interface of k8s.io/apiserver, which only
// this type implements.
type cachingAuthorizer struct {
	next    authz.Authorizer
	answers map[question]answer
}

// question is a user and an action to authorize.
type question struct {
	user string
	authz.Attributes
}

type answer struct {
	decision authorizer.Decision
	reason   string
	err      error
}

// Authorize is part of authorizer.Authorizer, the interface of the library.
func (c *cachingAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	at := authz.Attributes{
		Verb: a.GetVerb(), IsResource: a.IsResourceRequest(), Path: a.GetPath(), Namespace: a.GetNamespace(),
		Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource(), Subresource: a.GetSubresource(), Name: a.GetName(),
	}
	// A selector that did not parse does not restrict the request.
	if f, err := a.GetFieldSelector(); err == nil {
		at.FieldSelector = fieldSelector(f)
	}
	if l, err := a.GetLabelSelector(); err == nil {
		at.LabelSelector = labelSelector(l)
	}
	q := question{identity(a.GetUser()), at}
	if known, ok := c.answers[q]; ok {
		return known.decision, known.reason, known.err
	}
	at.User = a.GetUser()
	decision, reason, err := c.next.Authorize(ctx, &at)
	got := answer{reason: reason, err: err}
	switch decision {
	case authz.Allow:
		got.decision = authorizer.DecisionAllow
	case authz.Deny:
		got.decision = authorizer.DecisionDeny
	default:
		got.decision = authorizer.DecisionNoOpinion
	}
	if c.answers == nil {
		c.answers = map[question]answer{}
	}
	c.answers[q] = got
	return got.decision, got.reason, got.err
}

// identity returns a key of everything in a user that authorizers look at.
func identity(u user.Info) string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf("%q %q %q %q", u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra())
}

func fieldSelector(rs fields.Requirements) string {
	var out []string
	for _, r := range rs {
		op := "="
		if r.Operator == selection.NotEquals {
			op = "!="
		}
		out = append(out, r.Field+op+fields.EscapeValue(r.Value))
	}
	return strings.Join(out, ",")
}

func labelSelector(rs labels.Requirements) string {
	return labels.NewSelector().Add(rs...).String()
}
