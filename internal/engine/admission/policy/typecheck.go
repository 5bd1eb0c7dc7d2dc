package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"

	kanzencel "github.com/kanzen-io/kanzen/internal/object/cel"
)

// TypeChecker finds type errors in the expressions of a
// ValidatingAdmissionPolicy, for each kind that its rules name without
// wildcards. They are only warnings, because the policy is evaluated without
// types.
type TypeChecker struct {
	// Kinds returns the kinds of a resource.
	Kinds func(gvr schema.GroupVersionResource) []schema.GroupVersionKind
	// Schema returns the schema of a kind, without references; nil: it has
	// none.
	Schema func(kind schema.GroupVersionKind) (*spec.Schema, error)
}

// maxKinds bounds how many kinds one rule is checked for.
const maxKinds = 10

// declared is a kind with its declaration.
type declared struct {
	schema.GroupVersionKind
	decl *apiservercel.DeclType
}

// Check returns the warnings for a policy; nil if there are none.
func (c *TypeChecker) Check(p *admissionv1.ValidatingAdmissionPolicy) []admissionv1.ExpressionWarning {
	var kinds []declared
	for n, kind := range c.kindsOf(p) {
		if d := c.declare(kind, fmt.Sprintf("%s%d", kind.Kind, n)); d != nil {
			kinds = append(kinds, declared{kind, d})
		}
	}
	var params *apiservercel.DeclType
	if k := paramKind(p.Spec.ParamKind); k != nil {
		params = c.declare(*k, "Params"+k.Kind)
	}
	var out []admissionv1.ExpressionWarning
	check := func(at *field.Path, expression string) {
		var found []string
		for _, k := range kinds {
			if text := issues(p, k.decl, params, expression); text != "" {
				found = append(found, fmt.Sprintf("%v: %s\n", k.GroupVersionKind, text))
			}
		}
		if len(found) > 0 {
			out = append(out, admissionv1.ExpressionWarning{FieldRef: at.String(), Warning: strings.Join(found, "\n")})
		}
	}
	for i, v := range p.Spec.Validations {
		at := field.NewPath("spec", "validations").Index(i)
		check(at.Child("expression"), v.Expression)
		if v.MessageExpression != "" {
			check(at.Child("messageExpression"), v.MessageExpression)
		}
	}
	return out
}

// issues returns the errors of compiling an expression with the types of a
// kind.
func issues(p *admissionv1.ValidatingAdmissionPolicy, object, params *apiservercel.DeclType, expression string) string {
	variables := apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{})
	env, err := kanzencel.TypedEnvironment(object, params, p.Spec.ParamKind != nil, variables)
	if err != nil {
		return "type checking error: fail to build env: " + err.Error()
	}
	for _, v := range p.Spec.Variables {
		var t *cel.Type
		if ast, issues := env.Compile(v.Expression); issues == nil {
			t = ast.OutputType()
		}
		variables.Fields[v.Name] = apiservercel.NewDeclField(v.Name, kanzencel.DeclType(t), true, nil, nil)
	}
	if _, issues := env.Compile(expression); issues != nil {
		return issues.String()
	}
	return ""
}

func (c *TypeChecker) declare(kind schema.GroupVersionKind, name string) *apiservercel.DeclType {
	s, err := c.Schema(kind)
	if err != nil || s == nil {
		return nil // a kind that cannot be looked up is not checked
	}
	d := common.SchemaDeclType(&openapi.Schema{Schema: s}, true)
	if d == nil {
		return nil
	}
	return d.MaybeAssignTypeName(name)
}

// kindsOf returns the kinds that the rules of a policy name without wildcards,
// in order.
func (c *TypeChecker) kindsOf(p *admissionv1.ValidatingAdmissionPolicy) []schema.GroupVersionKind {
	if p.Spec.MatchConstraints == nil {
		return nil
	}
	var out []schema.GroupVersionKind
	for _, r := range p.Spec.MatchConstraints.ResourceRules {
		if slices.ContainsFunc(r.APIGroups, wild) || slices.ContainsFunc(r.APIVersions, wild) {
			continue
		}
		count := 0
		for _, g := range slices.Sorted(slices.Values(r.APIGroups)) {
			for _, v := range slices.Sorted(slices.Values(r.APIVersions)) {
				for _, res := range slices.Sorted(slices.Values(r.Resources)) {
					if wild(res) || strings.Contains(res, "/") || count >= maxKinds {
						continue
					}
					for _, k := range c.Kinds(schema.GroupVersionResource{Group: g, Version: v, Resource: res}) {
						count++
						if !slices.Contains(out, k) {
							out = append(out, k)
						}
					}
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionKind) int { return strings.Compare(sortKey(a), sortKey(b)) })
	return out
}

func wild(s string) bool { return strings.Contains(s, "*") }

func sortKey(k schema.GroupVersionKind) string {
	return k.Group + "\x00" + k.Version + "\x00" + k.Kind
}
