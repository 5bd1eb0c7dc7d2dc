package authz

import (
	"context"
	"errors"
	"reflect"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/request"
)

type fixed struct {
	decision Decision
	reason   string
	err      error
}

func (f fixed) Authorize(context.Context, *Attributes) (Decision, string, error) {
	return f.decision, f.reason, f.err
}

func TestUnion(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		union Union
		want  fixed
	}{
		{"nobody", nil, fixed{decision: NoOpinion}},
		{"first opinion", Union{{"x", fixed{NoOpinion, "a", nil}}, {"y", fixed{Deny, "b", nil}}, {"z", fixed{Allow, "c", nil}}}, fixed{Deny, "b", nil}},
		{"no opinion", Union{{"x", fixed{NoOpinion, "a", nil}}, {"y", fixed{NoOpinion, "b", nil}}}, fixed{NoOpinion, "x: a\ny: b", nil}},
		{"an error before a yes", Union{{"x", fixed{NoOpinion, "", broken}}, {"y", fixed{Allow, "c", nil}}}, fixed{Allow, "c", nil}},
		{"an error and no opinion", Union{{"x", fixed{NoOpinion, "", broken}}, {"y", AlwaysDeny{}}}, fixed{NoOpinion, "y: Everything is forbidden.", broken}},
		{"masters first", Union{{"x", Masters{}}, {"y", fixed{Deny, "x", nil}}}, fixed{Allow, "", nil}},
	} {
		a := &Attributes{User: &user.DefaultInfo{Groups: []string{"system:masters"}}}
		decision, reason, err := c.union.Authorize(t.Context(), a)
		if decision != c.want.decision || reason != c.want.reason || !errors.Is(err, c.want.err) {
			t.Errorf("%s: %v %q %v, want %+v", c.name, decision, reason, err, c.want)
		}
	}
}

func TestForbidden(t *testing.T) {
	u := &user.DefaultInfo{Name: "<u>"}
	for _, c := range []struct {
		a      Attributes
		reason string
		want   string
	}{
		{Attributes{User: u, Verb: "get", Path: "/x&y"}, "", `forbidden: User "&lt;u&gt;" cannot get path "/x&amp;y"`},
		{Attributes{User: u, Verb: "list", IsResource: true, Resource: "pods"}, "", `pods is forbidden: User "&lt;u&gt;" cannot list resource "pods" in API group "" at the cluster scope`},
		{Attributes{User: u, Verb: "get", IsResource: true, Group: "apps", Resource: "sets", Subresource: "scale", Namespace: "n", Name: "x"}, "why",
			`sets.apps "x" is forbidden: User "&lt;u&gt;" cannot get resource "sets/scale" in API group "apps" in the namespace "n": why`},
		{Attributes{Verb: "get", Path: "/"}, "", `forbidden: User "" cannot get path "/"`},
	} {
		if err := Forbidden(&c.a, c.reason); err.Error() != c.want || !apierrors.IsForbidden(err) {
			t.Errorf("got %q\nwant %q", err, c.want)
		}
	}
}

// pods allows reading pods, and records the attributes.
type pods struct{ asked *Attributes }

func (p *pods) Authorize(_ context.Context, a *Attributes) (Decision, string, error) {
	p.asked = a
	if a.Resource == "pods" && a.Verb == "get" || a.Path == "/ok" {
		return Allow, "pods", nil
	}
	return NoOpinion, "", nil
}

func (*pods) RulesFor(user.Info, string) ([]rbacv1.PolicyRule, error) {
	return []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		{Verbs: []string{"get"}, NonResourceURLs: []string{"/ok"}},
	}, errors.New("one role is missing")
}

func resource(verb, namespace, name string) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{Verb: verb, Namespace: namespace, Resource: name}
}

func TestSubjectAccess(t *testing.T) {
	path := func(p string) *authorizationv1.NonResourceAttributes {
		return &authorizationv1.NonResourceAttributes{Path: p, Verb: "get"}
	}
	selected := func(change func(*authorizationv1.ResourceAttributes)) *authorizationv1.ResourceAttributes {
		r := resource("get", "", "pods")
		change(r)
		return r
	}
	for _, c := range []struct {
		name    string
		meta    metav1.ObjectMeta
		spec    authorizationv1.SubjectAccessReviewSpec
		fields  []string // of causes
		allowed bool
		notes   string
		labels  string
		field   string
	}{
		{name: "yes", spec: authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: resource("get", "", "pods")}, allowed: true},
		{name: "no", spec: authorizationv1.SubjectAccessReviewSpec{Groups: []string{"g"}, ResourceAttributes: resource("put", "", "pods")}},
		{name: "path", spec: authorizationv1.SubjectAccessReviewSpec{User: "u", NonResourceAttributes: path("/ok")}, allowed: true},
		{name: "nothing", fields: []string{"spec", "spec.user"}},
		{name: "both", spec: authorizationv1.SubjectAccessReviewSpec{User: "u", NonResourceAttributes: path("/"), ResourceAttributes: resource("", "", "")}, fields: []string{"spec"}},
		{name: "a name", meta: metav1.ObjectMeta{Name: "x"}, spec: authorizationv1.SubjectAccessReviewSpec{User: "u", NonResourceAttributes: path("/")}, fields: []string{"metadata"}},
		{name: "field management is no name", meta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}}, spec: authorizationv1.SubjectAccessReviewSpec{User: "u", NonResourceAttributes: path("/")}},
		{name: "both forms of a selector", spec: authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: selected(func(r *authorizationv1.ResourceAttributes) {
			r.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: "a", Requirements: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Exists"}}}
			r.FieldSelector = &authorizationv1.FieldSelectorAttributes{}
		})}, fields: []string{"spec.resourceAttributes.fieldSelector.requirements", "spec.resourceAttributes.labelSelector.rawSelector"}},
		{name: "selectors", spec: authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: selected(func(r *authorizationv1.ResourceAttributes) {
			r.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "In", Values: []string{"a", "b"}}, {Key: "e", Operator: "Exists"}}}
			r.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "f", Operator: "In", Values: []string{"v"}}, {Key: "g", Operator: "NotIn", Values: []string{"w"}}}}
		})}, allowed: true, labels: "e,k in (a,b)", field: "f=v,g!=w"},
		{name: "selectors of the future", spec: authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: selected(func(r *authorizationv1.ResourceAttributes) {
			r.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: "a in ("}
			r.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "f", Operator: "In", Values: []string{"v"}}, {Key: "g", Operator: "Near"}}}
		})}, allowed: true, field: "f=v",
			notes: "spec.resourceAttributes.fieldSelector partially ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error"},
	} {
		p := &pods{}
		in := &authorizationv1.SubjectAccessReview{ObjectMeta: c.meta, Spec: c.spec}
		out, err := (&Reviews{Authorizer: p}).SubjectAccess(t.Context(), in)
		if got := causes(err); !reflect.DeepEqual(got, c.fields) {
			t.Errorf("%s: causes %q, want %q (%v)", c.name, got, c.fields, err)
		}
		if err != nil {
			continue
		}
		if out.Status.Allowed != c.allowed || out.Status.Denied || out.Status.EvaluationError != c.notes {
			t.Errorf("%s: %+v", c.name, out.Status)
		}
		if p.asked.LabelSelector != c.labels || p.asked.FieldSelector != c.field {
			t.Errorf("%s: selectors %q, %q", c.name, p.asked.LabelSelector, p.asked.FieldSelector)
		}
	}
}

func causes(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, cause.Field)
	}
	return fields
}

func TestLocalSubjectAccess(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     authorizationv1.LocalSubjectAccessReview
		fields []string
		want   bool
	}{
		{"yes", authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}, Spec: authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: resource("get", "n", "pods")}}, nil, true},
		{"another namespace", authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}, Spec: authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: resource("get", "m", "pods")}}, []string{"spec.resourceAttributes.namespace"}, false},
		{"both", authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}, Spec: authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: resource("get", "n", "pods"), NonResourceAttributes: &authorizationv1.NonResourceAttributes{}}}, []string{"spec", "spec.nonResourceAttributes"}, false},
	} {
		ctx := request.WithInfo(t.Context(), &request.Info{Namespace: "n"})
		out, err := (&Reviews{Authorizer: &pods{}}).LocalSubjectAccess(ctx, &c.in)
		if got := causes(err); !reflect.DeepEqual(got, c.fields) || err == nil && out.Status.Allowed != c.want {
			t.Errorf("%s: %q, %v, %+v", c.name, got, err, out)
		}
	}
	ctx := request.WithInfo(t.Context(), &request.Info{Namespace: "m"})
	in := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}, Spec: authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: resource("get", "n", "pods")}}
	if _, err := (&Reviews{Authorizer: &pods{}}).LocalSubjectAccess(ctx, in); !apierrors.IsBadRequest(err) {
		t.Errorf("of another namespace: %v", err)
	}
}

func TestSelfReviews(t *testing.T) {
	reviews := &Reviews{Authorizer: &pods{}, Rules: func() []RuleResolver { return []RuleResolver{&pods{}, AlwaysAllow{}} }}
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "u"})
	access, err := reviews.SelfSubjectAccess(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: resource("get", "", "pods")}})
	if err != nil || !access.Status.Allowed {
		t.Errorf("access: %+v, %v", access, err)
	}
	rules, err := reviews.SelfSubjectRules(ctx, &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	if s := rules.Status; len(s.ResourceRules) != 2 || len(s.NonResourceRules) != 2 || s.EvaluationError != "one role is missing" || rules.Spec.Namespace != "" {
		t.Errorf("rules: %+v", rules)
	}
	if _, err := reviews.SelfSubjectRules(ctx, &authorizationv1.SelfSubjectRulesReview{}); !apierrors.IsBadRequest(err) {
		t.Errorf("rules without a namespace: %v", err)
	}
	if _, err := reviews.SelfSubjectAccess(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: resource("get", "", "pods")}}); !apierrors.IsBadRequest(err) {
		t.Errorf("access without a user: %v", err)
	}
}
