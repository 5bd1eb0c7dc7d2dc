package admissionregistration

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	celenv "github.com/kanzen-io/kanzen/internal/object/cel"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

const (
	maxAuditAnnotations     = 20
	maxAuditValueExpression = 5 << 10
)

// validator validates the kinds of this group.
type validator struct {
	Deps
	cel *compiler
}

// compilerFor returns the compiler of a policy's expressions.
func (v *validator) compilerFor(variables []admissionv1.Variable) *compiler {
	if len(variables) > 0 {
		return forPolicy()
	}
	return v.cel
}

func (v *validator) validateValidatingPolicy(ctx context.Context, p *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	errs := rules.GenericMeta(&p.ObjectMeta, false, rules.Subdomain)
	errs = append(errs, v.validatingPolicy(p, nil)...)
	return v.mayUseParams(ctx, errs, p.Spec.ParamKind, nil)
}

func (v *validator) validateValidatingPolicyUpdate(ctx context.Context, p, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	errs := rules.GenericMetaUpdate(&p.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, v.validatingPolicy(p, old)...)
	return v.mayUseParams(ctx, errs, p.Spec.ParamKind, old.Spec.ParamKind)
}

// mayUseParams rejects a policy whose parameters its author may not read.
func (v *validator) mayUseParams(ctx context.Context, errs field.ErrorList, kind, old *admissionv1.ParamKind) field.ErrorList {
	if len(errs) > 0 || kind == nil || v.MayReadParamKind == nil || old != nil && *old == *kind {
		return errs
	}
	if err := v.MayReadParamKind(ctx, *kind); err != nil {
		return field.ErrorList{field.Forbidden(specPath.Child("paramKind"), err.Error())}
	}
	return nil
}

func (v *validator) validatingPolicy(p, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	s := &p.Spec
	var was admissionv1.ValidatingAdmissionPolicySpec
	if old != nil {
		was = old.Spec
	}
	e := rules.At(specPath)
	oneOf(e, "failurePolicy", s.FailurePolicy, failurePolicies)
	paramKind(s.ParamKind, e.Field("paramKind"))
	matchConstraints(s.MatchConstraints, e.Field("matchConstraints"))
	params := s.ParamKind != nil
	if old == nil || !apiequality.Semantic.DeepEqual(s.ParamKind, was.ParamKind) ||
		!apiequality.Semantic.DeepEqual(s.MatchConditions, was.MatchConditions) {
		v.matchConditions(s.MatchConditions, params, was.MatchConditions, e.Field("matchConditions"))
	}
	c := v.compilerFor(s.Variables)
	isStored := func(text string) bool {
		return slices.ContainsFunc(was.Validations, func(x admissionv1.Validation) bool { return x.Expression == text })
	}
	variables(c, s.Variables, params, isStored, e.Field("variables"))
	if len(s.Validations) == 0 && len(s.AuditAnnotations) == 0 {
		e.Field("validations").Required("validations or auditAnnotations must contain at least one item")
		e.Field("auditAnnotations").Required("validations or auditAnnotations must contain at least one item")
	}
	for i := range s.Validations {
		validationRule(c, &s.Validations[i], params, was.Validations, e.Field("validations").Item(i))
	}
	if n := len(s.AuditAnnotations); n > maxAuditAnnotations {
		e.Field("auditAnnotations").Invalid(n, "too many")
	}
	for i := range s.AuditAnnotations {
		a, at := &s.AuditAnnotations[i], e.Field("auditAnnotations").Item(i)
		auditAnnotation(c, p.Name, a, params, was.AuditAnnotations, at)
		if slices.ContainsFunc(s.AuditAnnotations[:i], func(b admissionv1.AuditAnnotation) bool { return b.Key == a.Key }) {
			at.Field("key").Duplicate(a.Key)
		}
	}
	return e.List()
}

func paramKind(k *admissionv1.ParamKind, e rules.Errors) {
	if k == nil {
		return
	}
	if e.Present("apiVersion", k.APIVersion) {
		at := e.Field("apiVersion")
		group, version := "", k.APIVersion
		if i := strings.Index(version, "/"); i >= 0 {
			group, version = version[:i], version[i+1:]
		}
		switch {
		case strings.Contains(version, "/"):
			at.Invalid(k.APIVersion, "must be group/version")
		case version == "":
			at.Invalid(k.APIVersion, "must have a version")
		default:
			if len(validation.IsDNS1035Label(version)) > 0 {
				at.Invalid(version, "must be a version")
			}
		}
		if group != "" && len(validation.IsDNS1123Subdomain(group)) > 0 {
			at.Invalid(group, "must be the name of a group")
		}
	}
	if e.Present("kind", k.Kind) && len(validation.IsDNS1035Label(strings.ToLower(k.Kind))) > 0 {
		e.Field("kind").Invalid(k.Kind, "must be a name of letters and digits")
	}
}

func variables(c *compiler, list []admissionv1.Variable, params bool, isStored func(string) bool, e rules.Errors) {
	for i, x := range list {
		at := e.Item(i)
		if strings.TrimSpace(x.Name) == "" {
			at.Field("name").Required("name is not specified")
		} else if !isIdentifier(x.Name) {
			at.Field("name").Invalid(x.Name, "must be a CEL identifier")
		}
		if strings.TrimSpace(x.Expression) == "" {
			at.Field("expression").Required("expression is not specified")
			continue
		}
		c.define(at.Field("expression"), x.Name, x.Expression, celenv.Scope{Params: params, Authorizer: true}, isStored(x.Expression))
	}
}

var (
	identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)
	reserved   = []string{
		"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
		"let", "loop", "package", "namespace", "return", "var", "void", "while",
	}
)

func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !slices.Contains(reserved, name)
}

func validationRule(c *compiler, r *admissionv1.Validation, params bool, was []admissionv1.Validation, e rules.Errors) {
	isStored := func(of func(admissionv1.Validation) bool) bool { return slices.ContainsFunc(was, of) }
	if strings.TrimSpace(r.Expression) == "" {
		e.Field("expression").Required("expression is not specified")
	} else {
		c.check(e.Field("expression"), r.Expression, celenv.Scope{Params: params, Authorizer: true}, toBool,
			isStored(func(x admissionv1.Validation) bool { return x.Expression == r.Expression }))
	}
	if r.MessageExpression != "" {
		if strings.TrimSpace(r.MessageExpression) == "" {
			e.Field("messageExpression").Invalid(r.MessageExpression, "must not be blank")
		} else {
			c.check(e.Field("messageExpression"), r.MessageExpression, celenv.Scope{Params: params}, toString,
				isStored(func(x admissionv1.Validation) bool { return x.MessageExpression == r.MessageExpression }))
		}
	}
	switch message := strings.TrimSpace(r.Message); {
	case r.Message != "" && message == "":
		e.Field("message").Invalid(r.Message, "must not be blank")
	case strings.ContainsAny(message, "\n\r"):
		e.Field("message").Invalid(r.Message, "must be one line")
	}
	if r.Reason != nil {
		rules.OneOf(e, "reason", *r.Reason, []metav1.StatusReason{
			metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge,
		})
	}
}

func auditAnnotation(c *compiler, policy string, a *admissionv1.AuditAnnotation, params bool, was []admissionv1.AuditAnnotation, e rules.Errors) {
	if policy == "" {
		e.Field("key").Invalid(a.Key, "needs metadata.name")
	} else {
		e.Field("key").QualifiedName(policy + "/" + a.Key)
	}
	switch text := strings.TrimSpace(a.ValueExpression); {
	case text == "":
		e.Field("valueExpression").Required("valueExpression is not specified")
	case len(text) > maxAuditValueExpression:
		e.Field("valueExpression").Required("must be shorter")
	default:
		stored := slices.ContainsFunc(was, func(x admissionv1.AuditAnnotation) bool { return x.ValueExpression == a.ValueExpression })
		c.check(e.Field("valueExpression"), text, celenv.Scope{Params: params, Authorizer: true}, toStringNull, stored)
	}
}

func validateValidatingPolicyStatus(_ context.Context, p, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	e := rules.At(statusPath)
	e.Add(rules.GenericMetaUpdate(&p.ObjectMeta, &old.ObjectMeta))
	if t := p.Status.TypeChecking; t != nil {
		for i, w := range t.ExpressionWarnings {
			at := e.Field("typeChecking").Field("expressionWarnings").Item(i)
			at.Present("warning", w.Warning)
			fieldRef(w.FieldRef, at)
		}
	}
	e.Add(metavalidation.ValidateConditions(p.Status.Conditions, statusPath.Child("conditions")))
	return e.List()
}

func (v *validator) validateMutatingPolicy(ctx context.Context, p *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	errs := rules.GenericMeta(&p.ObjectMeta, false, rules.Subdomain)
	errs = append(errs, v.mutatingPolicy(p, nil)...)
	return v.mayUseParams(ctx, errs, p.Spec.ParamKind, nil)
}

func (v *validator) validateMutatingPolicyUpdate(ctx context.Context, p, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	errs := rules.GenericMetaUpdate(&p.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, v.mutatingPolicy(p, old)...)
	return v.mayUseParams(ctx, errs, p.Spec.ParamKind, old.Spec.ParamKind)
}

func (v *validator) mutatingPolicy(p, old *admissionv1.MutatingAdmissionPolicy) field.ErrorList {
	s := &p.Spec
	var was admissionv1.MutatingAdmissionPolicySpec
	if old != nil {
		was = old.Spec
	}
	e := rules.At(specPath)
	oneOf(e, "failurePolicy", s.FailurePolicy, failurePolicies)
	paramKind(s.ParamKind, e.Field("paramKind"))
	matchConstraints(s.MatchConstraints, e.Field("matchConstraints"))
	noDeletes(s.MatchConstraints, e.Field("matchConstraints"))
	params := s.ParamKind != nil
	if old == nil || !apiequality.Semantic.DeepEqual(s.ParamKind, was.ParamKind) ||
		!apiequality.Semantic.DeepEqual(s.MatchConditions, was.MatchConditions) {
		v.matchConditions(s.MatchConditions, params, was.MatchConditions, e.Field("matchConditions"))
	}
	c := forPolicy()
	variables(c, s.Variables, params, func(string) bool { return false }, e.Field("variables"))
	if len(s.Mutations) == 0 {
		e.Field("mutations").Required("mutations must contain at least one item")
	}
	for i := range s.Mutations {
		mutationRule(c, &s.Mutations[i], params, was.Mutations, e.Field("mutations").Item(i))
	}
	rules.RequiredOneOf(e, "reinvocationPolicy", s.ReinvocationPolicy, reinvocations)
	return e.List()
}

func mutationRule(c *compiler, m *admissionv1.Mutation, params bool, was []admissionv1.Mutation, e rules.Errors) {
	in := celenv.Scope{Params: params, Authorizer: true, Patch: true}
	apply, patch := e.Field("applyConfiguration"), e.Field("jsonPatch")
	stored := func(text string) bool {
		return slices.ContainsFunc(was, func(x admissionv1.Mutation) bool {
			return x.ApplyConfiguration != nil && x.ApplyConfiguration.Expression == text
		})
	}
	expression := func(text string, to []*cel.Type, e rules.Errors) {
		if trimmed := strings.TrimSpace(text); trimmed == "" {
			e.Field("expression").Required("")
		} else {
			c.check(e.Field("expression"), trimmed, in, to, stored(text))
		}
	}
	switch m.PatchType {
	case admissionv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			patch.Required("must be specified when patchType is JSONPatch")
		} else {
			expression(m.JSONPatch.Expression, toPatch, patch)
		}
		if m.ApplyConfiguration != nil {
			apply.Invalid("{applyConfiguration}", "not for this patchType")
		}
	case admissionv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			apply.Required("must be specified when patchType is ApplyConfiguration")
		} else {
			expression(m.ApplyConfiguration.Expression, toObject, apply)
		}
		if m.JSONPatch != nil {
			patch.Invalid("{jsonPatch}", "not for this patchType")
		}
	default:
		rules.RequiredOneOf(e, "patchType", m.PatchType, []admissionv1.PatchType{
			admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch,
		})
	}
}
