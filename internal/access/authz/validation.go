package authz

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateSubjectAccess(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	var errs field.ErrorList
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	return validateAttributes(spec.ResourceAttributes, spec.NonResourceAttributes, errs)
}

func validateLocalSubjectAccess(in *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := validateSubjectAccess(&in.Spec)
	meta := in.ObjectMeta
	meta.Namespace = ""
	errs = append(errs, validateEmptyMeta(&meta, "must be empty but for the namespace")...)
	if r := in.Spec.ResourceAttributes; r != nil && r.Namespace != in.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec", "resourceAttributes", "namespace"), r.Namespace, "must match metadata.namespace"))
	}
	if in.Spec.NonResourceAttributes != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec", "nonResourceAttributes"), in.Spec.NonResourceAttributes, "disallowed on this kind of request"))
	}
	return errs
}

// validateAttributes checks that exactly one kind of attributes is set, and validates the selectors. The errors of
// other checks go between the two.
func validateAttributes(resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes, between field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if (resource == nil) == (path == nil) {
		errs = append(errs, field.Invalid(spec, path, "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	errs = append(errs, between...)
	if resource == nil {
		return errs
	}
	if s := resource.FieldSelector; s != nil {
		at := spec.Child("resourceAttributes", "fieldSelector")
		errs = append(errs, validateSelectorForm(s.RawSelector, len(s.Requirements), at)...)
		for i, r := range s.Requirements {
			// A newer client may know operators that this server does not.
			errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(r,
				metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, at.Child("requirements").Index(i))...)
		}
	}
	if s := resource.LabelSelector; s != nil {
		at := spec.Child("resourceAttributes", "labelSelector")
		errs = append(errs, validateSelectorForm(s.RawSelector, len(s.Requirements), at)...)
		for i, r := range s.Requirements {
			errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(r,
				metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, at.Child("requirements").Index(i))...)
		}
	}
	return errs
}

// validateSelectorForm checks that a selector is set in exactly one form.
func validateSelectorForm(raw string, requirements int, at *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(at.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(at.Child("requirements"), "requirements or rawSelector must be given")}
	}
	return nil
}

// validateEmptyMeta checks that metadata is empty except for what the server sets.
func validateEmptyMeta(meta *metav1.ObjectMeta, detail string) field.ErrorList {
	rest := *meta
	rest.ManagedFields = nil
	if equality.Semantic.DeepEqual(metav1.ObjectMeta{}, rest) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), meta, detail)}
}
