package admissionregistration

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

func TestWarnReviews(t *testing.T) {
	rule := func(groups, resources []string) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{Rule: admissionv1.Rule{APIGroups: groups, APIVersions: []string{"v1"}, Resources: resources}}
	}
	c := &admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{
		{Rules: []admissionv1.RuleWithOperations{rule([]string{"*"}, []string{"tokenreviews"}), rule([]string{"authorization.k8s.io"}, []string{"*"}), rule([]string{""}, []string{"pods"})}},
		{Rules: []admissionv1.RuleWithOperations{rule([]string{"", "authentication.k8s.io", "authentication.k8s.io"}, []string{"pods", "tokenreviews"})}},
	}}
	const want = "webhooks[1].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect"
	for _, on := range []bool{false, true} {
		for _, r := range Resources(Deps{NotReviews: on}) {
			if r.Kind != "ValidatingWebhookConfiguration" {
				continue
			}
			if got := r.Rules.Warn(t.Context(), c, nil); slices.Equal(got, []string{want}) != on || len(got) > 1 {
				t.Errorf("with the feature %v: %q", on, got)
			}
		}
	}
}
