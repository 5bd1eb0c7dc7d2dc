package policy_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/engine/admission/policy"
)

// Policies of manifests come before those that are stored, have bindings of their own, and apply to policies, too, but not to reviews.
func TestPoliciesOfManifests(t *testing.T) {
	r := newRig()
	var policies, bindings admissiontest.View
	d := r.deps
	d.Manifests = map[string]*policy.Source{policy.ValidatingName: {Policies: &policies, Bindings: &bindings}}
	r.chain = admission.Chain{policy.Validating(d)}
	refuses := func(a *admission.Attributes, by string) {
		t.Helper()
		err := r.chain.Validate(t.Context(), a)
		if (err == nil) != (by == "") || err != nil && !strings.Contains(err.Error(), "'"+by+"'") {
			t.Errorf("got %v, want a refusal by %q", err, by)
		}
	}
	all := func(name string) *admissionv1.ValidatingAdmissionPolicy {
		p := validates(name, "false")
		p.Spec.MatchConstraints = writes.DeepCopy()
		p.Spec.MatchConstraints.ResourceRules[0].Rule = admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}
		return p
	}
	change := admissiontest.Create(admissionv1.Resource("validatingadmissionpolicies"), all("new"))
	change.Kind = admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy")
	review := admissiontest.Create(authorizationv1.Resource("subjectaccessreviews"), &authorizationv1.SubjectAccessReview{})
	review.Kind = authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview")

	r.policies.Set(all("stored"))
	r.bindings.Set(binds("b", "stored", admissionv1.Deny))
	refuses(configMap(), "stored")
	refuses(change, "")

	policies.Set(all("z-manifest"))
	refuses(configMap(), "stored") // its binding is missing
	r.bindings.Set(binds("b", "z-manifest", admissionv1.Deny))
	refuses(configMap(), "") // a stored binding is for a stored policy
	bindings.Set(binds("b", "z-manifest", admissionv1.Deny))
	r.bindings.Set(binds("b", "stored", admissionv1.Deny))
	refuses(configMap(), "z-manifest")
	refuses(change, "z-manifest")
	refuses(review, "")

	bindings.Set()
	refuses(configMap(), "stored")
	refuses(change, "")
}

func TestConfig(t *testing.T) {
	for config, want := range map[string]string{
		"": "",
		"{apiVersion: apiserver.config.k8s.io/v1, kind: MutatingAdmissionPolicyConfiguration, staticManifestsDir: /here}": "/here",
		"{apiVersion: apiserver.config.k8s.io/v1, kind: ValidatingAdmissionPolicyConfiguration}":                          "error",
		"{apiVersion: apiserver.config.k8s.io/v2, kind: MutatingAdmissionPolicyConfiguration}":                            "error",
		"{apiVersion: apiserver.config.k8s.io/v1, kind: MutatingAdmissionPolicyConfiguration, colour: red}":               "error",
	} {
		got, err := policy.ReadConfig(policy.MutatingName, []byte(config))
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %q, %v, want %s", config, got, err, want)
		}
	}
}
