package admissionregistration

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine/admission/match"
)

// warnReviews warns of rules that name reviews, for which no webhook is called.
func warnReviews(hooks []hook) (out []string) {
	for i, h := range hooks {
		for j := range h.rules {
			at := field.NewPath("webhooks").Index(i).Child("rules").Index(j)
			for _, gr := range reviewsIn(&h.rules[j]) {
				out = append(out, fmt.Sprintf("%s: %s is excluded from admission webhooks; this rule will have no effect", at, gr))
			}
		}
	}
	return out
}

// reviewsIn are the reviews that a rule names. One for everything names none.
func reviewsIn(r *admissionv1.RuleWithOperations) (named []schema.GroupResource) {
	if slices.Contains(r.APIGroups, "*") || slices.Contains(r.Resources, "*") {
		return nil
	}
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			gr := schema.GroupResource{Group: group, Resource: resource}
			if match.Review(gr) && !slices.Contains(named, gr) {
				named = append(named, gr)
			}
		}
	}
	return named
}
