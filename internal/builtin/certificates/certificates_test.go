package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kanzen-io/kanzen/internal/builtin/rulestest"
)

func now() time.Time { return time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC) }

func kind(t *testing.T) rulestest.Kind {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return rulestest.Of(t, Resources(Deps{Now: now}), "certificatesigningrequests", fmt.Sprintf(`
metadata: {name: r}
spec: {signerName: example.com/s, usages: [digital signature], request: %s, username: somebody, groups: [a]}
`, base64.StdEncoding.EncodeToString(text)))
}

func TestRequester(t *testing.T) {
	obj, _ := kind(t).Created(t, `{status: {certificate: Zm9v}}`)
	r := obj.(*certificatesv1.CertificateSigningRequest)
	if r.Spec.Username != "jane" || r.Spec.UID != "7" || !slices.Equal(r.Spec.Groups, []string{"dev"}) {
		t.Errorf("requester %+v", r.Spec)
	}
	if len(r.Status.Certificate) > 0 {
		t.Error("a certificate without approval")
	}
}

func TestValidate(t *testing.T) {
	k := kind(t)
	k.Create(t, []rulestest.Case{
		{Name: "request", Edit: `{spec: {request: Zm9v}}`, Want: []string{"spec.request Invalid"}},
		{Name: "usages", Edit: `{spec: {usages: [foo, foo]}}`,
			Want: []string{"spec.usages[0] NotSupported", "spec.usages[1] Duplicate", "spec.usages[1] NotSupported"}},
		{Name: "no usages", Edit: `{spec: {usages: []}}`, Want: []string{"spec.usages Required"}},
		{Name: "short", Edit: `{spec: {expirationSeconds: 5}}`, Want: []string{"spec.expirationSeconds Invalid"}},
		{Name: "signer", Edit: `{spec: {signerName: foo}}`, Want: []string{"spec.signerName Invalid"}},
	})
}

// TestShortDuration has the words of kube-apiserver.
func TestShortDuration(t *testing.T) {
	obj := kind(t).Decoded(t, `{spec: {expirationSeconds: 599}}`)
	errs := Resources(Deps{})[0].Rules.Validate(rulestest.Context(), obj)
	if len(errs) != 1 || errs[0].Error() != "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)" {
		t.Errorf("got %v", errs)
	}
}

func TestApproval(t *testing.T) {
	k := kind(t)
	obj, faults := k.Updated(t, "approval", `{status: {certificate: Zm9v, conditions: [{type: Approved, status: "True"}]}}`)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	r := obj.(*certificatesv1.CertificateSigningRequest)
	if len(r.Status.Conditions) != 1 || r.Status.Conditions[0].Type != certificatesv1.CertificateApproved {
		t.Fatalf("conditions %+v", r.Status.Conditions)
	}
	if got := r.Status.Conditions[0].LastUpdateTime.Time; !got.Equal(now()) {
		t.Errorf("approved at %s", got)
	}
	if len(r.Status.Certificate) > 0 {
		t.Error("approval sets a certificate")
	}
	if _, faults := k.UpdatedFrom(t, "approval", r, `{status: {conditions: []}}`); !slices.Equal(faults, []string{"status.conditions Forbidden"}) {
		t.Errorf("approval taken back: %v", faults)
	}
}
