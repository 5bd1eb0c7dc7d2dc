package policy

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func validate(_ context.Context, b *policyv1.PodDisruptionBudget) field.ErrorList {
	// Any path segment is a valid name.
	errs := rules.GenericMeta(&b.ObjectMeta, true, rules.Segment)
	return append(errs, spec(&b.Spec, false)...)
}

func validateUpdate(_ context.Context, b, old *policyv1.PodDisruptionBudget) field.ErrorList {
	errs := rules.GenericMetaUpdate(&b.ObjectMeta, &old.ObjectMeta)
	return append(errs, spec(&b.Spec, rules.InvalidLabelSelector(old.Spec.Selector))...)
}

func spec(s *policyv1.PodDisruptionBudgetSpec, allowInvalidSelector bool) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		e.Invalid(s, "minAvailable and maxUnavailable cannot be both set")
	}
	if v := s.MinAvailable; v != nil {
		e.IntOrPercent("minAvailable", *v)
		e.AtMostAll("minAvailable", *v)
	}
	if v := s.MaxUnavailable; v != nil {
		e.IntOrPercent("maxUnavailable", *v)
		e.AtMostAll("maxUnavailable", *v)
	}
	e.LabelSelector("selector", s.Selector, allowInvalidSelector)
	if p := s.UnhealthyPodEvictionPolicy; p != nil {
		rules.OneOf(e, "unhealthyPodEvictionPolicy", *p, []policyv1.UnhealthyPodEvictionPolicyType{
			policyv1.AlwaysAllow, policyv1.IfHealthyBudget,
		})
	}
	return e.List()
}

func validateStatus(_ context.Context, b, old *policyv1.PodDisruptionBudget) field.ErrorList {
	s := &b.Status
	e := rules.At(field.NewPath("status"))
	e.Add(rules.GenericMetaUpdate(&b.ObjectMeta, &old.ObjectMeta))
	e.Add(metavalidation.ValidateConditions(s.Conditions, e.Path().Child("conditions")))
	e.Nonnegative("disruptionsAllowed", int64(s.DisruptionsAllowed))
	e.Nonnegative("currentHealthy", int64(s.CurrentHealthy))
	e.Nonnegative("desiredHealthy", int64(s.DesiredHealthy))
	e.Nonnegative("expectedPods", int64(s.ExpectedPods))
	return e.List()
}
