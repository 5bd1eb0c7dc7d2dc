package serviceaccount

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"
)

// attesting lets an account attest one API group.
func attesting(group string) func(context.Context, user.Info, string) error {
	return func(_ context.Context, u user.Info, asked string) error {
		if u.GetName() != "system:serviceaccount:ns:sa" || u.GetUID() != "sa-uid" || asked != group {
			return errors.New("may not")
		}
		return nil
	}
}

const hookURL = "https://hook.example/validate"

// hookFixture has two configurations: v with a webhook at a URL for apps and one at a service for batch, m with one for everything.
func hookFixture(t *testing.T, may func(context.Context, user.Info, string) error) *fixture {
	f := newFixture(t, newTestKey(t))
	f.issuer.MayAttest, f.verifier.Webhooks = may, may != nil
	rules := func(group string) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{APIGroups: []string{group}}}}
	}
	service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "hooks", Name: "h", Path: ptr.To("ask")}}
	f.objects["validatingwebhookconfigurations /v"] = &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta("", "v", "v-uid"),
		Webhooks: []admissionregistrationv1.ValidatingWebhook{
			{ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(hookURL)}, Rules: rules("apps")},
			{ClientConfig: service, Rules: rules("batch")},
		}}
	f.objects["mutatingwebhookconfigurations /m"] = &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta("", "m", "m-uid"),
		Webhooks: []admissionregistrationv1.MutatingWebhook{{ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(hookURL)}, Rules: rules("*")}}}
	return f
}

func hookRequest(kind, name, audience, group string) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences:      []string{audience},
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind, Name: name},
		Attestations:   map[string]authenticationv1.AttestationValue{attestedGroups: {group}},
	}}
}

const validating, mutating = "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"

// A token for a webhook says who asks about which group, lives ten minutes at most, and ends with the configuration.
func TestTokenForWebhook(t *testing.T) {
	for _, c := range []struct {
		kind, name, audience, group string
		want                        map[string][]string
	}{
		{validating, "v", hookURL, "apps", map[string][]string{
			"authentication.kubernetes.io/validatingwebhookconfiguration-name":  {"v"},
			"authentication.kubernetes.io/validatingwebhookconfiguration-uid":   {"v-uid"},
			"attestation.authentication.kubernetes.io/admissionReviewAPIGroups": {"apps"},
			"authentication.kubernetes.io/credential-id":                        {"JTI=id"},
		}},
		{validating, "v", "https://h.hooks.svc:443/ask", "batch", nil},
		{mutating, "m", hookURL, "batch", map[string][]string{
			"authentication.kubernetes.io/mutatingwebhookconfiguration-name":    {"m"},
			"authentication.kubernetes.io/mutatingwebhookconfiguration-uid":     {"m-uid"},
			"attestation.authentication.kubernetes.io/admissionReviewAPIGroups": {"batch"},
			"authentication.kubernetes.io/credential-id":                        {"JTI=id"},
		}},
		{mutating, "m", "https://elsewhere", "*", nil}, // whoever may attest all groups asks whom they like
	} {
		f := hookFixture(t, attesting(c.group))
		out, err := f.issuer.Create(t.Context(), "ns", "sa", hookRequest(c.kind, c.name, c.audience, c.group), admitted)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if *out.Spec.ExpirationSeconds != 600 || !out.Status.ExpirationTimestamp.Time.Equal(now.Add(10*time.Minute)) {
			t.Errorf("%+v: it lives %d s, until %v", c, *out.Spec.ExpirationSeconds, out.Status.ExpirationTimestamp)
		}
		got, audiences, err := f.verifier.Verify(t.Context(), out.Status.Token)
		if err != nil || !reflect.DeepEqual(audiences, []string{c.audience}) || c.want != nil && !reflect.DeepEqual(got.User().GetExtra(), c.want) {
			t.Errorf("%+v: %v for %q, %v", c, got.User().GetExtra(), audiences, err)
		}
		for key, obj := range f.objects {
			if !strings.HasSuffix(key, "configurations /"+c.name) {
				continue
			}
			obj.SetUID("another")
			if _, _, err := f.verifier.Verify(t.Context(), out.Status.Token); err == nil || !strings.Contains(err.Error(), "UID") {
				t.Errorf("%+v: with another configuration of the name: %v", c, err)
			}
			delete(f.objects, key)
			if _, _, err := f.verifier.Verify(t.Context(), out.Status.Token); err == nil || !strings.Contains(err.Error(), "invalidated") {
				t.Errorf("%+v: without the configuration: %v", c, err)
			}
		}
		f.verifier.Webhooks = false
		if _, _, err := f.verifier.Verify(t.Context(), out.Status.Token); err == nil || !strings.Contains(err.Error(), "APIServerWebhookAuthenticationToken") {
			t.Errorf("%+v: with the gate off: %v", c, err)
		}
	}
}

func TestTokenForWebhookRefused(t *testing.T) {
	const denied = `serviceaccounts/token "sa" is forbidden: token request denied`
	for name, c := range map[string]struct {
		request *authenticationv1.TokenRequest
		may     func(context.Context, user.Info, string) error
		change  func(*fixture)
		says    string
	}{
		"gate off":        {hookRequest(validating, "v", hookURL, "apps"), nil, nil, "feature gate APIServerWebhookAuthenticationToken is disabled"},
		"own audience":    {hookRequest(validating, "v", issuer, "apps"), attesting("apps"), nil, "api server audiences are invalid for webhook token requests"},
		"no right":        {hookRequest(validating, "v", hookURL, "apps"), attesting("batch"), nil, "may not"},
		"other group":     {hookRequest(validating, "v", hookURL, "batch"), attesting("batch"), nil, denied},
		"other audience":  {hookRequest(validating, "v", hookURL+"/", "apps"), attesting("apps"), nil, denied},
		"no such":         {hookRequest(validating, "none", hookURL, "apps"), attesting("apps"), nil, denied},
		"of another kind": {hookRequest(mutating, "v", hookURL, "apps"), attesting("apps"), nil, denied},
		"being deleted": {hookRequest(validating, "v", hookURL, "apps"), attesting("apps"), func(f *fixture) {
			f.objects["validatingwebhookconfigurations /v"].SetDeletionTimestamp(&metav1.Time{Time: now.Add(-time.Second)})
		}, denied},
		"other UID": {func() *authenticationv1.TokenRequest {
			r := hookRequest(validating, "v", hookURL, "apps")
			r.Spec.BoundObjectRef.UID = "old"
			return r
		}(), attesting("apps"), nil, "the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated"},
	} {
		f := hookFixture(t, c.may)
		if c.change != nil {
			c.change(f)
		}
		_, err := f.issuer.Create(t.Context(), "ns", "sa", c.request, admitted)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if c.says == denied && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v is no 403", name, err)
		}
	}
}
