package authz

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

// RuleResolver lists what a user may do in a namespace and outside of namespaces. Rules returned with an error are
// valid.
type RuleResolver interface {
	RulesFor(u user.Info, namespace string) ([]rbacv1.PolicyRule, error)
}

// IncompleteRules is the error of an authorizer, given by name, that cannot list what it allows.
type IncompleteRules string

func (e IncompleteRules) Error() string {
	return string(e) + " authorizer does not support user rule resolution"
}

// Reviews serves the reviews of authorization.k8s.io. Its methods return a copy of the review with a status.
type Reviews struct {
	Authorizer Authorizer
	// Rules returns the current resolvers that SelfSubjectRules calls, in order.
	Rules func() []RuleResolver
}

// SubjectAccess reviews whether a user may make a request.
func (v *Reviews) SubjectAccess(ctx context.Context, in *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	errs := append(validateSubjectAccess(&in.Spec), validateEmptyMeta(&in.ObjectMeta, "must be empty")...)
	if len(errs) > 0 {
		return nil, invalidReview(errs)
	}
	out := in.DeepCopy()
	out.Status = v.decide(ctx, subjectOf(&in.Spec), in.Spec.ResourceAttributes, in.Spec.NonResourceAttributes)
	return out, nil
}

// LocalSubjectAccess reviews whether a user may make a request in one namespace.
func (v *Reviews) LocalSubjectAccess(ctx context.Context, in *authorizationv1.LocalSubjectAccessReview) (*authorizationv1.LocalSubjectAccessReview, error) {
	if errs := validateLocalSubjectAccess(in); len(errs) > 0 {
		return nil, invalidReview(errs)
	}
	if i := request.InfoFrom(ctx); i == nil || i.Namespace == "" || i.Namespace != in.Namespace {
		return nil, apierrors.NewBadRequest("a LocalSubjectAccessReview must be made in the namespace that it is about")
	}
	out := in.DeepCopy()
	out.Status = v.decide(ctx, subjectOf(&in.Spec), in.Spec.ResourceAttributes, in.Spec.NonResourceAttributes)
	return out, nil
}

// SelfSubjectAccess reviews whether the client may make a request.
func (v *Reviews) SelfSubjectAccess(ctx context.Context, in *authorizationv1.SelfSubjectAccessReview) (*authorizationv1.SelfSubjectAccessReview, error) {
	errs := validateAttributes(in.Spec.ResourceAttributes, in.Spec.NonResourceAttributes, nil)
	if errs = append(errs, validateEmptyMeta(&in.ObjectMeta, "must be empty")...); len(errs) > 0 {
		return nil, invalidReview(errs)
	}
	u := request.UserFrom(ctx)
	if u == nil {
		return nil, errNoUser()
	}
	out := in.DeepCopy()
	out.Status = v.decide(ctx, u, in.Spec.ResourceAttributes, in.Spec.NonResourceAttributes)
	return out, nil
}

// SelfSubjectRules lists what the client may do in a namespace.
func (v *Reviews) SelfSubjectRules(ctx context.Context, in *authorizationv1.SelfSubjectRulesReview) (*authorizationv1.SelfSubjectRulesReview, error) {
	u := request.UserFrom(ctx)
	if u == nil {
		return nil, errNoUser()
	}
	if in.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	// The answer is a new object, without the spec.
	out := &authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}}
	var errs []error
	for _, resolver := range v.Rules() {
		rules, err := resolver.RulesFor(u, in.Spec.Namespace)
		if err != nil {
			errs = append(errs, err)
			var incomplete IncompleteRules
			out.Status.Incomplete = out.Status.Incomplete || errors.As(err, &incomplete)
		}
		addRules(&out.Status, rules)
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		out.Status.EvaluationError = err.Error()
	}
	return out, nil
}

func addRules(status *authorizationv1.SubjectRulesReviewStatus, rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		if len(rule.Resources) > 0 {
			status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{
				Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs,
			})
		}
	}
}

// decide calls the authorizer with one set of attributes.
func (v *Reviews) decide(ctx context.Context, u user.Info, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	a, notes := reviewed(u, resource, path)
	decision, reason, err := v.Authorizer.Authorize(ctx, a)
	if err != nil {
		notes = append([]string{err.Error()}, notes...)
	}
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == Allow, Denied: decision == Deny, Reason: reason,
		EvaluationError: strings.Join(notes, "; "),
	}
}

// ForReview returns the attributes of the request that a review is about.
func ForReview(spec *authorizationv1.SubjectAccessReviewSpec) *Attributes {
	a, _ := reviewed(subjectOf(spec), spec.ResourceAttributes, spec.NonResourceAttributes)
	return a
}

// reviewed returns the attributes of a reviewed request, and notes on what of its selectors was not understood.
func reviewed(u user.Info, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) (*Attributes, []string) {
	a := &Attributes{User: u}
	if resource == nil {
		a.Verb, a.Path = path.Verb, path.Path
		return a, nil
	}
	a.Verb, a.IsResource = resource.Verb, true
	a.Namespace, a.Group, a.Version = resource.Namespace, resource.Group, resource.Version
	a.Resource, a.Subresource, a.Name = resource.Resource, resource.Subresource, resource.Name
	if a.Version == "" {
		a.Version = "*"
	}
	var fieldsFault, labelsFault fault
	a.FieldSelector, fieldsFault = fieldSelector(resource.FieldSelector)
	a.LabelSelector, labelsFault = labelSelector(resource.LabelSelector)
	return a, append(fieldsFault.explain("fieldSelector"), labelsFault.explain("labelSelector")...)
}

func subjectOf(spec *authorizationv1.SubjectAccessReviewSpec) user.Info {
	u := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	if spec.Extra != nil {
		u.Extra = make(map[string][]string, len(spec.Extra))
		for key, values := range spec.Extra {
			u.Extra[key] = values
		}
	}
	return u
}

func invalidReview(errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}

func errNoUser() error {
	return apierrors.NewBadRequest("no user present on request")
}

// fault says how much of a selector was not understood. Dropping a requirement makes the reviewed request broader, so
// an allow stays correct.
type fault int

const (
	understood fault = iota
	partlyIgnored
	ignored
)

func (f fault) explain(name string) []string {
	switch f {
	case partlyIgnored:
		return []string{fmt.Sprintf("spec.resourceAttributes.%s partially ignored due to parse error", name)}
	case ignored:
		return []string{fmt.Sprintf("spec.resourceAttributes.%s ignored due to parse error", name)}
	}
	return nil
}
