package serviceaccount

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
)

// attestedGroups is the one attestation there is: the API group whose objects the holder of a token may ask a webhook about.
const attestedGroups = "admissionReviewAPIGroups"

// isWebhook reports whether a token is to be bound to the configuration of an admission webhook.
func isWebhook(to *authenticationv1.BoundObjectReference) bool {
	return to != nil && to.APIVersion == admissionregistrationv1.SchemeGroupVersion.String() &&
		(to.Kind == "ValidatingWebhookConfiguration" || to.Kind == "MutatingWebhookConfiguration")
}

// refuseWebhook refuses to bind a token to a webhook's configuration, as kube-apiserver does without its gate for that.
func refuseWebhook(kind schema.GroupVersionKind) error {
	return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s (feature gate %s is disabled)", kind, features.APIServerWebhookAuthenticationToken))
}

// validateAttestations validates what a token is to attest: nothing, or one group for the one audience of a token for a webhook.
func validateAttestations(s *authenticationv1.TokenRequestSpec) (errs field.ErrorList) {
	path := field.NewPath("spec", "attestations")
	if !isWebhook(s.BoundObjectRef) {
		if len(s.Attestations) > 0 {
			errs = append(errs, field.Invalid(path, s.Attestations, "attestations may only be specified with a webhook bound object reference"))
		}
		return errs
	}
	if len(s.Audiences) != 1 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "audiences"), s.Audiences, "must be length 1 when bound to a webhook config"))
	}
	if len(s.Attestations) != 1 {
		return append(errs, field.Invalid(path, s.Attestations, "webhook bound requests require exactly one admissionReviewAPIGroups attestation"))
	}
	for key, groups := range s.Attestations {
		at := path.Key(key)
		switch {
		case key != attestedGroups:
			errs = append(errs, field.NotSupported(at, key, []string{attestedGroups}))
		case len(groups) != 1:
			errs = append(errs, field.Invalid(at, groups, "must specify a single value"))
		case groups[0] == "":
			errs = append(errs, field.Invalid(at.Index(0), "", "may not be an empty string"))
		case groups[0] != "*":
			for _, m := range validation.IsDNS1123Subdomain(groups[0]) {
				errs = append(errs, field.Invalid(at.Index(0), groups[0], "must specify a valid API Group: "+m))
			}
		}
	}
	return errs
}
