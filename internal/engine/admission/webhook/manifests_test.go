package webhook_test

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/engine/admission/webhook"
)

// Webhooks of manifests are called before those that are stored, whatever their names, and are asked about configurations, too.
func TestWebhooksOfManifests(t *testing.T) {
	s := newSite(t)
	mutating, validating := &admissiontest.View{}, &admissiontest.View{}
	d := s.deps
	d.Manifests = map[string]admission.View{webhook.MutatingName: mutating, webhook.ValidatingName: validating}
	s.chain = admission.Chain{webhook.Mutating(d), webhook.Validating(d)}

	s.mutating.Set(s.mutates("a", nil, "/append/stored"))
	if got, err := s.run(t, configMap()); err != nil || got != "stored" {
		t.Errorf("got %q, %v without manifests", got, err)
	}
	mutating.Set(s.mutates("z", nil, "/append/first,"))
	if got, err := s.run(t, configMap()); err != nil || got != "first,stored" {
		t.Errorf("got %q, %v", got, err)
	}
	mutating.Set(s.mutates("a", &ifNeeded, "/append/first,")) // another one than the stored a
	if got, err := s.run(t, configMap()); err != nil || got != "first,storedfirst," {
		t.Errorf("got %q, %v for equal names", got, err)
	}
	mutating.Set()

	all := []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"*"}, Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}}}
	denies := s.validates("deny", nil, "/deny")
	denies.Webhooks[0].Rules = all
	configuration := admissiontest.Create(admissionv1.Resource("validatingwebhookconfigurations"), denies)
	configuration.Kind = admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration")
	s.validating.Set(denies)
	if err := s.chain.Validate(t.Context(), configuration); err != nil {
		t.Errorf("a stored webhook was asked about a configuration: %v", err)
	}
	validating.Set(denies)
	if err := s.chain.Validate(t.Context(), configuration); err == nil {
		t.Error("a webhook of a manifest was not asked about a configuration")
	}
}

// Webhooks are not called for reviews while that feature is on, not even those of manifests.
func TestNoWebhooksForReviews(t *testing.T) {
	s := newSite(t)
	denies := s.validates("deny", nil, "/deny")
	denies.Webhooks[0].Rules = []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"*"}, Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}}}
	s.validating.Set(denies)
	review := admissiontest.Create(authorizationv1.Resource("subjectaccessreviews"), &authorizationv1.SubjectAccessReview{})
	review.Kind = authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview")
	for _, on := range []bool{false, true} {
		d := s.deps
		d.NotReviews = on
		d.Manifests = map[string]admission.View{webhook.ValidatingName: s.validating}
		if err := (admission.Chain{webhook.Validating(d)}).Validate(t.Context(), review); (err == nil) != on {
			t.Errorf("with the feature %v: %v", on, err)
		}
	}
}
