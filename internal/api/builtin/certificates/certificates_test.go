package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/engine"
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

// A certificate counts once, when it is issued, and only if the request asks for a duration.
func TestIssued(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	lasting := func(d time.Duration) []byte {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now().Add(-5 * time.Minute), NotAfter: now().Add(d)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	hour := int32(3600)
	for _, c := range []struct {
		name, signer string
		asked        *int32
		before, cert []byte
		want         string
	}{
		{"honored", "kubernetes.io/kubelet-serving", &hour, nil, lasting(time.Hour), "kubernetes.io/kubelet-serving true"},
		{"another duration", "kubernetes.io/kubelet-serving", &hour, nil, lasting(2 * time.Hour), "kubernetes.io/kubelet-serving false"},
		{"another signer", "example.com/s", &hour, nil, lasting(time.Hour), "other true"},
		{"no duration", "example.com/s", nil, nil, lasting(time.Hour), ""},
		{"no certificate", "example.com/s", &hour, nil, nil, ""},
		{"a second one", "example.com/s", &hour, lasting(time.Hour), lasting(time.Hour), ""},
	} {
		got := ""
		csrs := Resources(Deps{Now: now, Issued: func(signer string, honored bool) { got = fmt.Sprint(signer, " ", honored) }})[0]
		status := csrs.Subresources[slices.IndexFunc(csrs.Subresources, func(s *engine.Subresource) bool { return s.Name == "status" })]
		old := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: c.signer, ExpirationSeconds: c.asked}}
		old.Status.Certificate = c.before
		r := old.DeepCopy()
		r.Status.Certificate = c.cert
		for _, dryRun := range []bool{true, false} {
			end, err := status.Rules.BeginUpdate(t.Context(), r, old, dryRun)
			if err != nil {
				t.Fatal(err)
			}
			if end(false); got != "" {
				t.Errorf("%s, not stored: %q", c.name, got)
			}
			want := c.want
			if dryRun {
				want = ""
			}
			if end(true); got != want {
				t.Errorf("%s, dry run %t: %q, want %q", c.name, dryRun, got, want)
			}
		}
	}
}
