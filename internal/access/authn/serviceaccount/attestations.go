package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/kanzen-io/kanzen/internal/object/features"
)

// attestedGroups is the one attestation there is: the API group whose objects the holder of a token may ask a webhook about.
const attestedGroups = authenticationv1.AttestationAdmissionReviewAPIGroups

const validatingKind = "ValidatingWebhookConfiguration"

// isWebhook reports whether a token is to be bound to the configuration of an admission webhook.
func isWebhook(to *authenticationv1.BoundObjectReference) bool {
	return to != nil && to.APIVersion == admissionregistrationv1.SchemeGroupVersion.String() &&
		(to.Kind == validatingKind || to.Kind == "MutatingWebhookConfiguration")
}

// webhookLife bounds the lifetime of a token for a webhook, in seconds.
const webhookLife = 10 * 60

// bindWebhooks binds a token to a webhook configuration, so that the webhook knows by it who asks about objects of a group. The account must
// have the right to, and a webhook with the token's audience must be for the group.
func (t *TokenIssuer) bindWebhooks(ctx context.Context, account *corev1.ServiceAccount, spec *authenticationv1.TokenRequestSpec, claims *boundClaims) (*ref, error) {
	to := spec.BoundObjectRef
	if t.MayAttest == nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s (feature gate %s is disabled)",
			schema.FromAPIVersionAndKind(to.APIVersion, to.Kind), features.APIServerWebhookAuthenticationToken))
	}
	if slices.ContainsFunc(spec.Audiences, func(a string) bool { return slices.Contains(t.Audiences, a) }) {
		return nil, apierrors.NewBadRequest("api server audiences are invalid for webhook token requests")
	}
	group, audience := spec.Attestations[attestedGroups][0], spec.Audiences[0]
	*spec.ExpirationSeconds = min(*spec.ExpirationSeconds, webhookLife)
	identity := Identity{Namespace: account.Namespace, Name: account.Name, UID: string(account.UID)}
	if err := t.MayAttest(ctx, identity.User(), group); err != nil {
		return nil, err
	}
	obj, hooks, err := t.hooks(ctx, to)
	// Why it is refused is nobody's business who cannot read the configuration.
	denied := apierrors.NewForbidden(corev1.Resource("serviceaccounts/token"), account.Name, errors.New("token request denied"))
	if err != nil {
		return nil, denied
	}
	if d := obj.GetDeletionTimestamp(); d != nil && t.Clock.Now().After(d.Time) {
		return nil, denied
	}
	if group != "*" && !slices.ContainsFunc(hooks, func(h hook) bool { return h.isFor(group) && h.answersTo(audience) }) {
		return nil, denied
	}
	bound := refTo(obj)
	if to.Kind == validatingKind {
		claims.ValidatingWebhook = bound
	} else {
		claims.MutatingWebhook = bound
	}
	claims.Attestations = spec.Attestations
	return bound, nil
}

// hook is what counts of a webhook for the tokens that it gets.
type hook struct {
	client *admissionregistrationv1.WebhookClientConfig
	rules  []admissionregistrationv1.RuleWithOperations
}

// hooks returns the configuration to which a token is to be bound, and its webhooks.
func (t *TokenIssuer) hooks(ctx context.Context, to *authenticationv1.BoundObjectReference) (obj metav1.Object, all []hook, err error) {
	if to.Kind == validatingKind {
		c, err := t.Objects.ValidatingWebhooks(ctx, to.Name)
		if err != nil {
			return nil, nil, err
		}
		for n := range c.Webhooks {
			all = append(all, hook{&c.Webhooks[n].ClientConfig, c.Webhooks[n].Rules})
		}
		return c, all, nil
	}
	c, err := t.Objects.MutatingWebhooks(ctx, to.Name)
	if err != nil {
		return nil, nil, err
	}
	for n := range c.Webhooks {
		all = append(all, hook{&c.Webhooks[n].ClientConfig, c.Webhooks[n].Rules})
	}
	return c, all, nil
}

// isFor reports whether the webhook is asked about objects of a group.
func (h hook) isFor(group string) bool {
	return slices.ContainsFunc(h.rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		return slices.Contains(r.APIGroups, "*") || slices.Contains(r.APIGroups, group)
	})
}

// answersTo reports whether an audience is the webhook's: its URL, or what its service's URL would be.
func (h hook) answersTo(audience string) bool {
	if h.client.URL != nil && *h.client.URL == audience {
		return true
	}
	s := h.client.Service
	if s == nil {
		return false
	}
	path := ptr.Deref(s.Path, "/")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return audience == fmt.Sprintf("https://%s.%s.svc:%d%s", s.Name, s.Namespace, ptr.Deref(s.Port, 443), path)
}

// checkWebhooks checks the webhook configuration to which a token is bound, and adds it to who its holder is.
func (v *Verifier) checkWebhooks(ctx context.Context, claims *boundClaims, identity *Identity, now time.Time) error {
	if claims.ValidatingWebhook == nil && claims.MutatingWebhook == nil {
		return nil
	}
	if !v.Webhooks {
		return fmt.Errorf("feature gate %q is disabled, but token is webhook bound", features.APIServerWebhookAuthenticationToken)
	}
	identity.AttestedGroups = claims.Attestations[attestedGroups]
	if len(identity.AttestedGroups) == 0 {
		return fmt.Errorf("bound object was a webhook config, but %q attestation is missing", attestedGroups)
	}
	if to := claims.ValidatingWebhook; to != nil {
		found, err := v.objects.Referent(ctx, admissionregistrationv1.Resource("validatingwebhookconfigurations"), "", to.Name)
		if err := boundTo(found, err, *to, now); err != nil {
			return err
		}
		identity.ValidatingName, identity.ValidatingUID = to.Name, to.UID
	}
	if to := claims.MutatingWebhook; to != nil {
		found, err := v.objects.Referent(ctx, admissionregistrationv1.Resource("mutatingwebhookconfigurations"), "", to.Name)
		if err := boundTo(found, err, *to, now); err != nil {
			return err
		}
		identity.MutatingName, identity.MutatingUID = to.Name, to.UID
	}
	return nil
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
