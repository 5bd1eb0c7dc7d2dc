package admissionregistration

import (
	"context"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func (v *validator) validateValidatingBinding(ctx context.Context, b *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	errs := rules.GenericMeta(&b.ObjectMeta, false, rules.Subdomain)
	errs = append(errs, validatingBinding(&b.Spec)...)
	return v.mayBindParams(ctx, errs, "ValidatingAdmissionPolicy", b.Spec.PolicyName, b.Spec.ParamRef)
}

func (v *validator) validateValidatingBindingUpdate(ctx context.Context, b, old *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	errs := rules.GenericMetaUpdate(&b.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, validatingBinding(&b.Spec)...)
	if b.Spec.PolicyName == old.Spec.PolicyName && apiequality.Semantic.DeepEqual(b.Spec.ParamRef, old.Spec.ParamRef) {
		return errs
	}
	return v.mayBindParams(ctx, errs, "ValidatingAdmissionPolicy", b.Spec.PolicyName, b.Spec.ParamRef)
}

func (v *validator) validateMutatingBinding(ctx context.Context, b *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	errs := rules.GenericMeta(&b.ObjectMeta, false, rules.Subdomain)
	errs = append(errs, mutatingBinding(&b.Spec)...)
	return v.mayBindParams(ctx, errs, "MutatingAdmissionPolicy", b.Spec.PolicyName, b.Spec.ParamRef)
}

func (v *validator) validateMutatingBindingUpdate(ctx context.Context, b, old *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	errs := rules.GenericMetaUpdate(&b.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, mutatingBinding(&b.Spec)...)
	if b.Spec.PolicyName == old.Spec.PolicyName && apiequality.Semantic.DeepEqual(b.Spec.ParamRef, old.Spec.ParamRef) {
		return errs
	}
	return v.mayBindParams(ctx, errs, "MutatingAdmissionPolicy", b.Spec.PolicyName, b.Spec.ParamRef)
}

// mayBindParams rejects a binding whose parameters its author may not read.
func (v *validator) mayBindParams(ctx context.Context, errs field.ErrorList, policyKind, policy string, ref *admissionv1.ParamRef) field.ErrorList {
	if len(errs) > 0 || ref == nil || v.MayReadParams == nil {
		return errs
	}
	if err := v.MayReadParams(ctx, policyKind, policy, ref); err != nil {
		return field.ErrorList{field.Forbidden(specPath.Child("paramRef"), err.Error())}
	}
	return nil
}

func validatingBinding(s *admissionv1.ValidatingAdmissionPolicyBindingSpec) field.ErrorList {
	e := rules.At(specPath)
	binding(s.PolicyName, s.ParamRef, s.MatchResources, e)
	actions := []admissionv1.ValidationAction{admissionv1.Audit, admissionv1.Deny, admissionv1.Warn}
	at := e.Field("validationActions")
	for i, a := range s.ValidationActions {
		if !slices.Contains(actions, a) {
			at.AddError(field.NotSupported(at.Path().Index(i), a, actions))
		}
		if slices.Contains(s.ValidationActions[:i], a) {
			at.Item(i).Duplicate(a)
		}
	}
	if slices.Contains(s.ValidationActions, admissionv1.Deny) && slices.Contains(s.ValidationActions, admissionv1.Warn) {
		at.Invalid(s.ValidationActions, "who is denied need not be warned")
	}
	if len(s.ValidationActions) == 0 {
		at.Required("")
	}
	return e.List()
}

func mutatingBinding(s *admissionv1.MutatingAdmissionPolicyBindingSpec) field.ErrorList {
	e := rules.At(specPath)
	binding(s.PolicyName, s.ParamRef, s.MatchResources, e)
	noDeletes(s.MatchResources, e.Field("matchResources"))
	return e.List()
}

func binding(policy string, ref *admissionv1.ParamRef, match *admissionv1.MatchResources, e rules.Errors) {
	if e.Present("policyName", policy) {
		e.Name("policyName", policy, rules.Subdomain)
	}
	matchResources(match, e.Field("matchResources"))
	if ref == nil {
		return
	}
	at := e.Field("paramRef")
	if ref.Name != "" {
		at.OptionalPathSegment("name", ref.Name)
		if ref.Selector != nil {
			at.Field("name").Forbidden("either name or selector")
			at.Field("selector").Forbidden("either name or selector")
		}
	} else if ref.Selector == nil {
		at.Required("one of name or selector must be specified")
	}
	at.LabelSelector("selector", ref.Selector, false)
	var action admissionv1.ParameterNotFoundActionType
	if ref.ParameterNotFoundAction != nil {
		action = *ref.ParameterNotFoundAction
	}
	rules.RequiredOneOf(at, "parameterNotFoundAction", action, []admissionv1.ParameterNotFoundActionType{
		admissionv1.DenyAction, admissionv1.AllowAction,
	})
}
