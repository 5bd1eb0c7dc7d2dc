package webhook

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	authorizationv1 "k8s.io/api/authorization/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// maxConditions bounds the match conditions of a webhook.
const maxConditions = 64

// Matcher decides by CEL conditions whether a webhook is called: all must be true. They see the review's spec as
// "request".
type Matcher struct{ conditions []condition }

type condition struct {
	expression string
	program    cel.Program
}

// NewMatcher compiles conditions; it returns nil if there are none.
func NewMatcher(expressions []string, at *field.Path) (*Matcher, field.ErrorList) {
	if len(expressions) == 0 {
		return nil, nil
	}
	if len(expressions) > maxConditions {
		return nil, field.ErrorList{field.TooMany(at, len(expressions), maxConditions)}
	}
	env, err := requestEnv()
	if err != nil {
		return nil, field.ErrorList{field.InternalError(at, err)}
	}
	var errs field.ErrorList
	m, seen := &Matcher{}, map[string]bool{}
	for i, e := range expressions {
		at := at.Index(i).Child("expression")
		switch {
		case strings.TrimSpace(e) == "":
			errs = append(errs, field.Required(at, ""))
			continue
		case seen[e]:
			errs = append(errs, field.Duplicate(at, e))
			continue
		}
		seen[e] = true
		program, fault := compile(env, e, at)
		if fault != nil {
			errs = append(errs, fault)
			continue
		}
		m.conditions = append(m.conditions, condition{e, program})
	}
	return m, errs
}

func compile(env *cel.Env, expression string, at *field.Path) (cel.Program, *field.Error) {
	ast, issues := env.Compile(expression)
	if issues != nil {
		return nil, field.Invalid(at, expression, "compilation failed: "+issues.String())
	}
	if ast.OutputType() != cel.BoolType {
		return nil, field.Invalid(at, expression, fmt.Sprintf("must evaluate to %v but got %v", cel.BoolType, ast.OutputType()))
	}
	program, err := env.Program(ast)
	if err != nil {
		return nil, field.InternalError(at, fmt.Errorf("program instantiation failed: %w", err))
	}
	return program, nil
}

// Matches reports whether all conditions are true. If one is false, errors in others do not matter.
func (m *Matcher) Matches(ctx context.Context, spec *authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	vars := map[string]any{"request": valueOf(spec)}
	var errs []error
	for _, c := range m.conditions {
		result, _, err := c.program.ContextEval(ctx, vars)
		if err != nil {
			errs = append(errs, fmt.Errorf("cel evaluation error: expression '%v' resulted in error: %w", c.expression, err))
			continue
		}
		if matches, ok := result.Value().(bool); !ok {
			errs = append(errs, fmt.Errorf("cel evaluation error: expression '%v' eval result type should be bool but got %v", c.expression, result.Type()))
		} else if !matches {
			return false, nil
		}
	}
	return len(errs) == 0, utilerrors.NewAggregate(errs)
}

// requestEnv returns the CEL environment of conditions: the libraries of all Kubernetes expressions, and "request".
func requestEnv() (*cel.Env, error) {
	request := object("SubjectAccessReviewSpec", map[string]*apiservercel.DeclType{
		"resourceAttributes": object("ResourceAttributes", map[string]*apiservercel.DeclType{
			"namespace": apiservercel.StringType, "verb": apiservercel.StringType, "group": apiservercel.StringType,
			"version": apiservercel.StringType, "resource": apiservercel.StringType, "subresource": apiservercel.StringType,
			"name":          apiservercel.StringType,
			"fieldSelector": selectorType("FieldSelectorAttributes"),
			"labelSelector": selectorType("LabelSelectorAttributes"),
		}),
		"nonResourceAttributes": object("NonResourceAttributes", map[string]*apiservercel.DeclType{
			"path": apiservercel.StringType, "verb": apiservercel.StringType,
		}),
		"user": apiservercel.StringType, "uid": apiservercel.StringType, "groups": listOfStrings(),
		"extra": apiservercel.NewMapType(apiservercel.StringType, listOfStrings(), -1),
	})
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable("request", request.CelType())},
		DeclTypes:         []*apiservercel.DeclType{request},
	})
	if err != nil {
		return nil, err
	}
	return set.Env(environment.StoredExpressions)
}

func object(name string, fields map[string]*apiservercel.DeclType) *apiservercel.DeclType {
	all := make(map[string]*apiservercel.DeclField, len(fields))
	for name, t := range fields {
		all[name] = apiservercel.NewDeclField(name, t, false, nil, nil)
	}
	return apiservercel.NewObjectType("kubernetes."+name, all)
}

func listOfStrings() *apiservercel.DeclType {
	return apiservercel.NewListType(apiservercel.StringType, -1)
}

func selectorType(name string) *apiservercel.DeclType {
	requirement := object("SelectorRequirement", map[string]*apiservercel.DeclType{
		"key": apiservercel.StringType, "operator": apiservercel.StringType, "values": listOfStrings(),
	})
	return object(name, map[string]*apiservercel.DeclType{
		"rawSelector": apiservercel.StringType, "requirements": apiservercel.NewListType(requirement, -1),
	})
}

// valueOf returns a spec as expressions see it: strings are present even if empty, objects only if set.
func valueOf(spec *authorizationv1.SubjectAccessReviewSpec) map[string]any {
	extra := spec.Extra
	if extra == nil {
		extra = map[string]authorizationv1.ExtraValue{}
	}
	out := map[string]any{"user": spec.User, "groups": spec.Groups, "uid": spec.UID, "extra": extra}
	if p := spec.NonResourceAttributes; p != nil {
		out["nonResourceAttributes"] = map[string]string{"verb": p.Verb, "path": p.Path}
	}
	r := spec.ResourceAttributes
	if r == nil {
		return out
	}
	resource := map[string]any{
		"namespace": r.Namespace, "verb": r.Verb, "group": r.Group, "version": r.Version,
		"resource": r.Resource, "subresource": r.Subresource, "name": r.Name,
	}
	if s := r.FieldSelector; s != nil {
		var list []map[string]any
		for _, q := range s.Requirements {
			list = append(list, map[string]any{"key": q.Key, "operator": string(q.Operator), "values": q.Values})
		}
		resource["fieldSelector"] = map[string]any{"requirements": list}
	}
	if s := r.LabelSelector; s != nil {
		var list []map[string]any
		for _, q := range s.Requirements {
			list = append(list, map[string]any{"key": q.Key, "operator": string(q.Operator), "values": q.Values})
		}
		resource["labelSelector"] = map[string]any{"requirements": list}
	}
	out["resourceAttributes"] = resource
	return out
}
