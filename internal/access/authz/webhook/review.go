package webhook

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/kanzen-io/kanzen/internal/access/authz"
)

// specOf returns the spec of a SubjectAccessReview for a request.
func specOf(a *authz.Attributes) *authorizationv1.SubjectAccessReviewSpec {
	spec := &authorizationv1.SubjectAccessReviewSpec{}
	if u := a.User; u != nil {
		spec.User, spec.UID, spec.Groups = u.GetName(), u.GetUID(), u.GetGroups()
		if extra := u.GetExtra(); extra != nil {
			spec.Extra = make(map[string]authorizationv1.ExtraValue, len(extra))
			for k, v := range extra {
				spec.Extra[k] = v
			}
		}
	}
	if !a.IsResource {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
		return spec
	}
	r := &authorizationv1.ResourceAttributes{
		Namespace: a.Namespace, Verb: a.Verb, Group: a.Group, Version: a.Version,
		Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
	}
	if s := fieldRequirements(a.FieldSelector); len(s) > 0 {
		r.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: s}
	}
	if s := labelRequirements(a.LabelSelector); len(s) > 0 {
		r.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: s}
	}
	spec.ResourceAttributes = r
	return spec
}

// fieldRequirements and labelRequirements leave out requirements that a review cannot express: the reviewed request
// becomes broader, so an allow stays correct.
func fieldRequirements(selector string) []metav1.FieldSelectorRequirement {
	if selector == "" {
		return nil
	}
	s, err := fields.ParseSelector(selector)
	if err != nil {
		return nil
	}
	var out []metav1.FieldSelectorRequirement
	for _, r := range s.Requirements() {
		op := metav1.FieldSelectorOpNotIn
		switch r.Operator {
		case selection.Equals, selection.DoubleEquals, selection.In:
			op = metav1.FieldSelectorOpIn
		case selection.NotEquals, selection.NotIn:
		default:
			continue
		}
		out = append(out, metav1.FieldSelectorRequirement{Key: r.Field, Operator: op, Values: []string{r.Value}})
	}
	return out
}

func labelRequirements(selector string) []metav1.LabelSelectorRequirement {
	if selector == "" {
		return nil
	}
	all, err := labels.ParseToRequirements(selector)
	if err != nil {
		return nil
	}
	var out []metav1.LabelSelectorRequirement
	for _, r := range all {
		var op metav1.LabelSelectorOperator
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			op = metav1.LabelSelectorOpIn
		case selection.NotEquals, selection.NotIn:
			op = metav1.LabelSelectorOpNotIn
		case selection.Exists:
			op = metav1.LabelSelectorOpExists
		case selection.DoesNotExist:
			op = metav1.LabelSelectorOpDoesNotExist
		default:
			continue
		}
		out = append(out, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: op, Values: r.ValuesUnsorted()})
	}
	return out
}

// old converts the review to v1beta1, in which groups are called "group".
func old(in *authorizationv1.SubjectAccessReviewSpec) *authorizationv1beta1.SubjectAccessReview {
	out := &authorizationv1beta1.SubjectAccessReview{Spec: authorizationv1beta1.SubjectAccessReviewSpec{
		User: in.User, UID: in.UID, Groups: in.Groups,
		NonResourceAttributes: (*authorizationv1beta1.NonResourceAttributes)(in.NonResourceAttributes),
		ResourceAttributes:    (*authorizationv1beta1.ResourceAttributes)(in.ResourceAttributes),
	}}
	out.APIVersion, out.Kind = authorizationv1beta1.SchemeGroupVersion.String(), "SubjectAccessReview"
	if in.Extra != nil {
		out.Spec.Extra = make(map[string]authorizationv1beta1.ExtraValue, len(in.Extra))
		for k, v := range in.Extra {
			out.Spec.Extra[k] = authorizationv1beta1.ExtraValue(v)
		}
	}
	return out
}
