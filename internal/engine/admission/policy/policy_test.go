package policy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/engine/admission/policy"
	"github.com/kanzen-io/kanzen/internal/object/cel"
	"github.com/kanzen-io/kanzen/internal/request"
)

type namespaces struct{}

func (namespaces) NamespaceLabels(context.Context, string) (labels.Set, error) {
	return labels.Set{}, nil
}

func (namespaces) Namespace(_ context.Context, name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

type params struct{}

func (params) Namespaced(schema.GroupVersionKind) (namespaced, ok bool) { return true, true }

func (params) Get(_ context.Context, _ schema.GroupVersionKind, namespace, name string) (admission.Object, error) {
	if name == "missing" {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"max": "1"}}, nil
}

func (params) List(context.Context, schema.GroupVersionKind, string) ([]admission.Object, error) {
	return nil, errors.New("out of order")
}

// rig has the plugins, with policies set by tests.
type rig struct {
	policies, bindings                 admissiontest.View
	mutatingPolicies, mutatingBindings admissiontest.View
	deps                               policy.Deps
	chain                              admission.Chain
}

func newRig() *rig {
	r := &rig{}
	d := policy.Deps{
		ValidatingPolicies: &r.policies, ValidatingBindings: &r.bindings, MutatingPolicies: &r.mutatingPolicies, MutatingBindings: &r.mutatingBindings,
		Params: params{}, Namespaces: namespaces{}, Authorizer: authz.AlwaysDeny{}, Compiler: cel.NewCompiler(), Metrics: measure.New(),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	r.deps, r.chain = d, admission.Chain{policy.Mutating(d), policy.Validating(d)}
	return r
}

var writes = &admissionv1.MatchResources{
	NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
	ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{"*"},
		Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}},
}

func validates(name, expression string) *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: writes, Validations: []admissionv1.Validation{{Expression: expression}}}}
}

func binds(name, policy string, actions ...admissionv1.ValidationAction) *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy, ValidationActions: actions}}
}

func configMap() *admission.Attributes {
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n"}}
	a := admissiontest.Create(corev1.Resource("configmaps"), cm)
	a.Kind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	return a
}

func TestInForceAtOnce(t *testing.T) {
	r := newRig()
	for n := range 3 {
		r.policies.Set(validates("p", "false"))
		r.bindings.Set()
		if err := r.chain.Validate(t.Context(), configMap()); err != nil {
			t.Fatalf("%d: a policy without a binding: %v", n, err)
		}
		r.bindings.Set(binds("b", "p", admissionv1.Deny), binds("c", "other", admissionv1.Deny))
		err := r.chain.Validate(t.Context(), configMap())
		if err == nil || err.Error() != `configmaps "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: false` {
			t.Fatalf("%d: got %v", n, err)
		}
		r.policies.Set(validates("p", "object.metadata.name == 'a'"))
		if err := r.chain.Validate(t.Context(), configMap()); err != nil {
			t.Fatalf("%d: got %v", n, err)
		}
	}
}

func TestActions(t *testing.T) {
	r := newRig()
	p := validates("p", "false")
	p.Spec.Validations[0].Message = "no"
	p.Spec.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "k", ValueExpression: "string(object.metadata.name)"}, {Key: "none", ValueExpression: "null"}}
	r.policies.Set(p)
	r.bindings.Set(binds("b", "p", admissionv1.Warn, admissionv1.Audit))
	audit := request.NewAudit("id", request.AuditMetadata)
	ctx, warnings := request.WithWarnings(request.WithAudit(t.Context(), audit))
	if err := r.chain.Validate(ctx, configMap()); err != nil {
		t.Fatal(err)
	}
	if got := warnings.Take(); len(got) != 1 || got[0] != "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no" {
		t.Errorf("warnings %q", got)
	}
	got := map[string]string{}
	for _, n := range audit.Facts().Annotations {
		got[n.Key] = n.Value
	}
	want := `[{"message":"no","policy":"p","binding":"b","expressionIndex":0,"validationActions":["Warn","Audit"]}]`
	if len(got) != 2 || got["p/k"] != "a" || got["validation.policy.admission.k8s.io/validation_failure"] != want {
		t.Errorf("annotations %q", got)
	}
}

func TestParameters(t *testing.T) {
	deny, allow := admissionv1.DenyAction, admissionv1.AllowAction
	for _, c := range []struct {
		name string
		ref  *admissionv1.ParamRef
		want string // "": accepted
	}{
		{"by name", &admissionv1.ParamRef{Name: "p", ParameterNotFoundAction: &deny}, "failed expression"},
		{"missing", &admissionv1.ParamRef{Name: "missing", ParameterNotFoundAction: &deny}, "no params found for policy binding with `Deny` parameterNotFoundAction"},
		{"missing and allowed", &admissionv1.ParamRef{Name: "missing", ParameterNotFoundAction: &allow}, ""},
		{"unreadable", &admissionv1.ParamRef{Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: &deny}, "failed to configure binding: out of order"},
		{"none", nil, ""},
	} {
		r := newRig()
		p := validates("p", "params == null || params.data.max == '2'")
		p.Spec.ParamKind = &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		b := binds("b", "p", admissionv1.Deny)
		b.Spec.ParamRef = c.ref
		r.policies.Set(p)
		r.bindings.Set(b)
		err := r.chain.Validate(t.Context(), configMap())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestMutation(t *testing.T) {
	r := newRig()
	r.mutatingPolicies.Set(&admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionv1.MutatingAdmissionPolicySpec{
		MatchConstraints: writes,
		Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch,
			JSONPatch: &admissionv1.JSONPatch{Expression: `[JSONPatch{op: "add", path: "/data", value: {"of": object.metadata.name}}]`}}},
	}})
	r.mutatingBindings.Set(&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"}})
	a := configMap()
	before := a.Object
	if err := r.chain.Admit(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if cm := a.Object.(*corev1.ConfigMap); cm.Data["of"] != "a" || cm.Kind != "ConfigMap" {
		t.Errorf("got %+v", cm)
	}
	if before.(*corev1.ConfigMap).Data != nil {
		t.Error("the object that others hold was changed")
	}
}

// A write that matches no policy allocates nothing.
func TestUnmatchedAllocatesNothing(t *testing.T) {
	r := newRig()
	var ps, bs []admission.Object
	for n := range 50 {
		name := fmt.Sprint("p", n)
		ps, bs = append(ps, validates(name, "false")), append(bs, binds(name, name, admissionv1.Deny))
	}
	r.policies.Set(ps...)
	r.bindings.Set(bs...)
	a := configMap()
	a.Resource.Resource = "secrets"
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if r.chain.Admit(ctx, a) != nil || r.chain.Validate(ctx, a) != nil {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
