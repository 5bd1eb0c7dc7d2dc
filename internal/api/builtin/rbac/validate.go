package rbac

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func validateRole(_ context.Context, r *rbacv1.Role) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&r.ObjectMeta, true, rules.Segment))
	for i := range r.Rules {
		policyRule(&r.Rules[i], true, e.Elsewhere(field.NewPath("rules").Index(i)))
	}
	return e.List()
}

func validateRoleUpdate(ctx context.Context, r, old *rbacv1.Role) field.ErrorList {
	return append(validateRole(ctx, r), rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta)...)
}

func validateClusterRole(_ context.Context, r *rbacv1.ClusterRole) field.ErrorList {
	return clusterRole(r, false)
}

func validateClusterRoleUpdate(_ context.Context, r, old *rbacv1.ClusterRole) field.ErrorList {
	allowInvalid := false
	if a := old.AggregationRule; a != nil {
		for i := range a.ClusterRoleSelectors {
			allowInvalid = allowInvalid || rules.InvalidLabelSelector(&a.ClusterRoleSelectors[i])
		}
	}
	return append(clusterRole(r, allowInvalid), rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta)...)
}

func clusterRole(r *rbacv1.ClusterRole, allowInvalidSelector bool) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&r.ObjectMeta, false, rules.Segment))
	for i := range r.Rules {
		policyRule(&r.Rules[i], false, e.Elsewhere(field.NewPath("rules").Index(i)))
	}
	if a := r.AggregationRule; a != nil {
		path := field.NewPath("aggregationRule")
		if len(a.ClusterRoleSelectors) == 0 {
			e.Elsewhere(path.Child("clusterRoleSelectors")).Required("at least one clusterRoleSelector required if aggregationRule is non-nil")
		}
		for i := range a.ClusterRoleSelectors {
			s, at := &a.ClusterRoleSelectors[i], e.Elsewhere(path.Child("clusterRoleSelectors").Index(i))
			at.Add(metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{
				AllowInvalidLabelValueInSelector: allowInvalidSelector,
			}, at.Path()))
			if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
				at.Invalid(nil, "invalid label selector.")
			}
		}
	}
	return e.List()
}

func policyRule(r *rbacv1.PolicyRule, namespaced bool, e rules.Errors) {
	if len(r.Verbs) == 0 {
		e.Field("verbs").Required("")
	}
	if len(r.NonResourceURLs) > 0 {
		if namespaced {
			e.Field("nonResourceURLs").Invalid(r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
		}
		if len(r.APIGroups) > 0 || len(r.Resources) > 0 || len(r.ResourceNames) > 0 {
			e.Field("nonResourceURLs").Invalid(r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
		}
		return
	}
	if len(r.APIGroups) == 0 {
		e.Field("apiGroups").Required("resource rules must supply at least one api group")
	}
	if len(r.Resources) == 0 {
		e.Field("resources").Required("resource rules must supply at least one resource")
	}
}

func validateRoleBinding(_ context.Context, b *rbacv1.RoleBinding) field.ErrorList {
	errs := rules.ObjectMeta(&b.ObjectMeta, true, rules.Segment)
	return append(errs, binding(b.RoleRef, b.Subjects, true)...)
}

func validateRoleBindingUpdate(ctx context.Context, b, old *rbacv1.RoleBinding) field.ErrorList {
	errs := append(validateRoleBinding(ctx, b), rules.ObjectMetaUpdate(&b.ObjectMeta, &old.ObjectMeta)...)
	return append(errs, roleRefUpdate(b.RoleRef, old.RoleRef)...)
}

func validateClusterRoleBinding(_ context.Context, b *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := rules.ObjectMeta(&b.ObjectMeta, false, rules.Segment)
	return append(errs, binding(b.RoleRef, b.Subjects, false)...)
}

func validateClusterRoleBindingUpdate(ctx context.Context, b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := append(validateClusterRoleBinding(ctx, b), rules.ObjectMetaUpdate(&b.ObjectMeta, &old.ObjectMeta)...)
	return append(errs, roleRefUpdate(b.RoleRef, old.RoleRef)...)
}

// roleRefUpdate rejects changes of the roleRef: a user who may change a binding's subjects may not be allowed to bind
// another role.
func roleRefUpdate(ref, old rbacv1.RoleRef) field.ErrorList {
	if ref != old {
		return field.ErrorList{field.Invalid(field.NewPath("roleRef"), ref, "field is immutable")}
	}
	return nil
}

func binding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) field.ErrorList {
	e := rules.At(field.NewPath("roleRef"))
	rules.OneOf(e, "apiGroup", ref.APIGroup, []string{rbacv1.GroupName})
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"} // in kube-apiserver's order, which messages show
	}
	rules.OneOf(e, "kind", ref.Kind, kinds)
	e.PathSegment("name", ref.Name)
	for i := range subjects {
		subject(&subjects[i], namespaced, e.Elsewhere(field.NewPath("subjects").Index(i)))
	}
	return e.List()
}

func subject(s *rbacv1.Subject, namespaced bool, e rules.Errors) {
	named := e.Present("name", s.Name)
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if named {
			e.Name("name", s.Name, rules.ServiceAccountName)
		}
		rules.OneOf(e, "apiGroup", s.APIGroup, []string{""})
		if !namespaced {
			e.Present("namespace", s.Namespace)
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		rules.OneOf(e, "apiGroup", s.APIGroup, []string{rbacv1.GroupName})
	default:
		rules.OneOf(e, "kind", s.Kind, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind})
	}
}
