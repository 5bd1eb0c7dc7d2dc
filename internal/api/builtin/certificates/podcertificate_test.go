package certificates

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func signerOf(t *testing.T, curve elliptic.Curve) crypto.Signer {
	return must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(curve, rand.Reader))
}

// stubOf returns an empty request for a key, in base64.
func stubOf(t *testing.T, key crypto.Signer) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(must[[]byte](t)(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)))
}

func stub(t *testing.T, key crypto.Signer) string {
	t.Helper()
	return fmt.Sprintf("{spec: {stubPKCS10Request: %s}}", stubOf(t, key))
}

// proof is an edit that sets a key, and a signature of the pod's UID, in place of a request.
func proof(t *testing.T, key crypto.Signer, signature []byte) string {
	der := must[[]byte](t)(x509.MarshalPKIXPublicKey(key.Public()))
	return fmt.Sprintf("{spec: {stubPKCS10Request: null, pkixPublicKey: %s, proofOfPossession: %s}}",
		base64.StdEncoding.EncodeToString(der), base64.StdEncoding.EncodeToString(signature))
}

func podCertificateKind(t *testing.T, key crypto.Signer, maySign bool) rulestest.Kind {
	t.Helper()
	return rulestest.Of(t, Resources(Deps{Now: now, MaySign: func(context.Context, string) bool { return maySign }}), "podcertificaterequests", fmt.Sprintf(`
metadata: {name: r, namespace: ns}
spec: {signerName: example.com/s, podName: p, podUID: pu, serviceAccountName: sa, serviceAccountUID: su, nodeName: node, nodeUID: nu, stubPKCS10Request: %s}
`, stubOf(t, key)))
}

func TestPodCertificate(t *testing.T) {
	key := signerOf(t, elliptic.P256())
	k := podCertificateKind(t, key, true)
	obj, _ := k.Created(t, `{status: {certificateChain: x}}`)
	if r := obj.(*certificatesv1beta1.PodCertificateRequest); *r.Spec.MaxExpirationSeconds != 86400 || r.Status.CertificateChain != "" {
		t.Errorf("created %+v", r)
	}
	hash := sha256.Sum256([]byte("pu"))
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	rsaKey := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 3072))
	smallKey := must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048))
	signature := must[[]byte](t)(key.Sign(rand.Reader, hash[:], crypto.SHA256))
	k.Create(t, []rulestest.Case{
		{Name: "Ed25519", Edit: stub(t, edKey)},
		{Name: "RSA", Edit: stub(t, rsaKey)},
		{Name: "short RSA", Edit: stub(t, smallKey), Want: []string{"spec.stubPKCS10Request Invalid"}},
		{Name: "short curve", Edit: stub(t, signerOf(t, elliptic.P224())), Want: []string{"spec.stubPKCS10Request Invalid"}},
		{Name: "no request", Edit: `{spec: {stubPKCS10Request: Zm9v}}`, Want: []string{"spec.stubPKCS10Request Invalid"}},
		{Name: "no key", Edit: `{spec: {stubPKCS10Request: null}}`, Want: []string{"spec Invalid"}},
		{Name: "two keys", Edit: `{spec: {pkixPublicKey: Zm9v}}`, Want: []string{"spec Invalid"}},
		{Name: "proof", Edit: proof(t, key, signature)},
		{Name: "proof by Ed25519", Edit: proof(t, edKey, ed25519.Sign(edKey, []byte("pu")))},
		{Name: "proof by RSA", Edit: proof(t, rsaKey, must[[]byte](t)(rsa.SignPSS(rand.Reader, rsaKey, crypto.SHA256, hash[:], nil)))},
		{Name: "proof by another key", Edit: proof(t, edKey, signature), Want: []string{"spec.proofOfPossession Invalid"}},
		{Name: "proof by a short key", Edit: proof(t, smallKey, signature), Want: []string{"spec.pkixPublicKey Invalid"}},
		{Name: "names", Edit: `{spec: {podName: A, serviceAccountName: A, nodeName: A, signerName: s}}`,
			Want: []string{"spec.nodeName Invalid", "spec.podName Invalid", "spec.serviceAccountName Invalid", "spec.signerName Invalid"}},
		{Name: "UIDs", Edit: `{spec: {podUID: "", serviceAccountUID: "", nodeUID: ` + strings.Repeat("u", 129) + `}}`,
			Want: []string{"spec.nodeUID TooLong", "spec.podUID Invalid", "spec.serviceAccountUID Invalid"}},
		{Name: "long", Edit: `{spec: {maxExpirationSeconds: 7862401}}`, Want: []string{"spec.maxExpirationSeconds Invalid"}},
		{Name: "91 days", Edit: `{spec: {maxExpirationSeconds: 7862400}}`},
		{Name: "91 days from Kubernetes", Edit: `{spec: {signerName: a.kubernetes.io/s, maxExpirationSeconds: 7862400}}`, Want: []string{"spec.maxExpirationSeconds Invalid"}},
		{Name: "annotations", Edit: `{spec: {unverifiedUserAnnotations: {Example.com/A: b}}}`},
		{Name: "annotation without a domain", Edit: `{spec: {unverifiedUserAnnotations: {a: b}}}`, Want: []string{"spec.unverifiedUserAnnotations Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "labels", Edit: `{metadata: {labels: {a: b}}, status: {certificateChain: x}}`},
		{Name: "spec", Edit: `{spec: {podUID: x}}`, Want: []string{"spec Invalid"}},
	})
}

// chainFor returns a certificate for a key, in PEM.
func chainFor(t *testing.T, key crypto.Signer, from, to time.Time, names ...string) string {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to, DNSNames: names}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// ended is an edit that ends a request with a condition, and sets more of its status.
func ended(outcome, more string) string {
	return fmt.Sprintf(`{status: {conditions: [{type: %s, status: "True", reason: R, lastTransitionTime: "2024-05-01T12:00:00Z"}]%s}}`, outcome, more)
}

func issuedWith(chain string, from, refresh, to time.Time) string {
	format := func(at time.Time) string { return at.Format(time.RFC3339) }
	return ended("Issued", fmt.Sprintf(`, certificateChain: %q, notBefore: %q, beginRefreshAt: %q, notAfter: %q`, chain, format(from), format(refresh), format(to)))
}

func TestPodCertificateStatus(t *testing.T) {
	key, another := signerOf(t, elliptic.P256()), signerOf(t, elliptic.P256())
	from, refresh, to := now(), now().Add(time.Hour), now().Add(2*time.Hour)
	chain := chainFor(t, key, from, to)
	k := podCertificateKind(t, key, true)
	one := func(field, reason string) []string { return []string{"status." + field + " " + reason} }
	k.Update(t, "status", []rulestest.Case{
		{Name: "denied", Edit: ended("Denied", "")},
		{Name: "failed", Edit: ended("Failed", "")},
		{Name: "issued", Edit: issuedWith(chain, from, refresh, to)},
		{Name: "issued with intermediates", Edit: issuedWith(chain+"text\n"+chainFor(t, another, from, to), from, refresh, to)},
		{Name: "spec and metadata are kept", Edit: `{metadata: {labels: {a: b}}, spec: {podUID: x}}`},
		{Name: "denied with a certificate", Edit: ended("Denied", ", certificateChain: x"), Want: []string{"status Invalid"}},
		{Name: "no outcome", Edit: `{status: {certificateChain: x}}`, Want: []string{"status Invalid"}},
		{Name: "another condition", Edit: ended("Ready", ""), Want: one("conditions.[0].type", "NotSupported")},
		{Name: "not true", Edit: strings.Replace(ended("Denied", ""), "True", "False", 1), Want: one("conditions.[0].status", "NotSupported")},
		{Name: "two outcomes", Edit: `{status: {conditions: [
			{type: Denied, status: "True", reason: R, lastTransitionTime: "2024-05-01T12:00:00Z"}, {type: Failed, status: "True", reason: R, lastTransitionTime: "2024-05-01T12:00:00Z"}]}}`,
			Want: one("conditions.[1].type", "Invalid")},
		{Name: "no reason", Edit: strings.Replace(ended("Denied", ""), "reason: R, ", "", 1), Want: one("conditions[0].reason", "Required")},
		{Name: "no certificate", Edit: ended("Issued", ""), Want: one("certificateChain", "Invalid")},
		{Name: "a key", Edit: issuedWith("-----BEGIN KEY-----\n-----END KEY-----\n", from, refresh, to), Want: one("certificateChain", "Invalid")},
		{Name: "a key behind", Edit: issuedWith(chain+"-----BEGIN KEY-----\n-----END KEY-----\n", from, refresh, to), Want: one("certificateChain", "Invalid")},
		{Name: "for another key", Edit: issuedWith(chainFor(t, another, from, to), from, refresh, to), Want: one("certificateChain", "Invalid")},
		{Name: "large", Edit: issuedWith(chain+strings.Repeat("#", 100<<10), from, refresh, to), Want: one("certificateChain", "TooLong")},
		{Name: "no times", Edit: ended("Issued", fmt.Sprintf(", certificateChain: %q", chain)),
			Want: []string{"status.beginRefreshAt Required", "status.notAfter Required", "status.notBefore Required"}},
		{Name: "another start", Edit: issuedWith(chain, from.Add(time.Second), refresh, to), Want: one("notBefore", "Invalid")},
		{Name: "another end", Edit: issuedWith(chain, from, refresh, to.Add(time.Second)), Want: one("notAfter", "Invalid")},
		{Name: "from the future", Edit: issuedWith(chainFor(t, key, from.Add(5*time.Minute), to), from.Add(5*time.Minute), refresh, to), Want: one("notBefore", "Invalid")},
		{Name: "short", Edit: issuedWith(chainFor(t, key, from, from.Add(59*time.Minute)), from, refresh, from.Add(59*time.Minute)), Want: one("certificateChain", "Invalid")},
		{Name: "long", Edit: issuedWith(chainFor(t, key, from, from.Add(25*time.Hour)), from, refresh, from.Add(25*time.Hour)), Want: one("certificateChain", "Invalid")},
		{Name: "refreshed at once", Edit: issuedWith(chain, from, from.Add(9*time.Minute), to), Want: one("beginRefreshAt", "Invalid")},
		{Name: "refreshed too late", Edit: issuedWith(chain, from, to.Add(-9*time.Minute), to), Want: one("beginRefreshAt", "Invalid")},
	})
	obj, _ := k.Updated(t, "status", ended("Denied", ""))
	if _, faults := k.UpdatedFrom(t, "status", obj, issuedWith(chain, from, refresh, to)); !slices.Equal(faults, []string{"status Invalid"}) {
		t.Errorf("issued after it was denied: %v", faults)
	}
	k = podCertificateKind(t, key, false)
	k.Update(t, "status", []rulestest.Case{
		{Name: "not a signer", Edit: ended("Denied", ""), Want: []string{"spec.signerName Forbidden"}},
		{Name: "not a signer, nothing signed", Edit: `{spec: {podUID: x}}`},
	})
}

// TestFormerFields writes by v1 what has a field that v1 does not show.
func TestFormerFields(t *testing.T) {
	r := Resources(Deps{})[2]
	v := r.Versions[0]
	//lint:ignore SA1019 a stored request may have the field
	old := &certificatesv1beta1.PodCertificateRequest{Spec: certificatesv1beta1.PodCertificateRequestSpec{PodName: "p", PKIXPublicKey: []byte("k")}}
	shown := must[engine.Object](t)(v.FromHub(t.Context(), old))
	if got := shown.(*certificatesv1.PodCertificateRequest); got.Spec.PodName != "p" {
		t.Errorf("shown as %+v", got.Spec)
	}
	back := must[engine.Object](t)(v.ToHub(t.Context(), shown)).(*certificatesv1beta1.PodCertificateRequest)
	back.ResourceVersion = "1"
	if errs := r.Rules.ValidateUpdate(t.Context(), back, old); !slices.ContainsFunc(errs.ToAggregate().Errors(), func(err error) bool { return strings.HasPrefix(err.Error(), "spec: Invalid") }) {
		t.Errorf("the field is lost: %v", errs)
	}
}
