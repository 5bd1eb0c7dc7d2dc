package csr

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

// names allows verbs on signers by their names.
type names map[string]string

func (n names) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if a.Group == "certificates.k8s.io" && a.Resource == "signers" && n[a.Verb] == a.Name {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

func csr(signer string, conditions ...certificatesv1.CertificateSigningRequestCondition) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: signer},
		Status:     certificatesv1.CertificateSigningRequestStatus{Conditions: conditions},
	}
}

func TestSigners(t *testing.T) {
	failed := certificatesv1.CertificateSigningRequestCondition{Type: "Failed"}
	for _, c := range []struct {
		name        string
		allowed     names
		subresource string
		obj, old    *certificatesv1.CertificateSigningRequest
		want        string
	}{
		{"approve", names{"approve": "d/s"}, "approval", csr("d/s"), csr("d/s"), ""},
		{"approve for the domain", names{"approve": "d/*"}, "approval", csr("d/s"), csr("d/s"), ""},
		{"approve by the stored signer", names{"approve": "d/s"}, "approval", csr("d/s"), csr("d/t"), "not permitted to approve"},
		{"sign", names{"sign": "d/s"}, "status", csr("d/s", failed), csr("d/s"), ""},
		{"sign for another", names{"sign": "d/t"}, "status", csr("d/s", failed), csr("d/s"), "not permitted to sign"},
		{"nothing signed", names{}, "status", csr("d/s", failed), csr("d/s", failed), ""},
		{"neither", names{}, "", csr("d/s"), csr("d/s"), ""},
	} {
		a := at.Update(admission.CertificateSigningRequests, c.subresource, c.obj, c.old)
		err := at.Run(Approval(c.allowed), a)
		if err == nil {
			err = at.Run(Signing(c.allowed), a)
		}
		t.Run(c.name, func(t *testing.T) { at.Check(t, err, c.want) })
	}
}

func TestAttest(t *testing.T) {
	bundle := func(signer string, edit func(*metav1.ObjectMeta)) *certificatesv1.ClusterTrustBundle {
		b := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer}}
		if edit != nil {
			edit(&b.ObjectMeta)
		}
		return b
	}
	finalized := func(m *metav1.ObjectMeta) { m.Finalizers = []string{"d/f"} }
	labelled := func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": "b"} }
	for _, c := range []struct {
		name    string
		allowed names
		a       *admission.Attributes
		want    string
	}{
		{"attest", names{"attest": "d/s"}, at.Create(admission.ClusterTrustBundles, bundle("d/s", nil)), ""},
		{"attest for the domain", names{"attest": "d/*"}, at.Create(admission.ClusterTrustBundles, bundle("d/s", nil)), ""},
		{"sign", names{"sign": "d/s"}, at.Create(admission.ClusterTrustBundles, bundle("d/s", nil)), `not permitted to attest for signerName "d/s"`},
		{"no signer", names{}, at.Create(admission.ClusterTrustBundles, bundle("", nil)), ""},
		{"finalizers", names{}, at.Update(admission.ClusterTrustBundles, "", bundle("d/s", finalized), bundle("d/s", nil)), ""},
		{"labels", names{}, at.Update(admission.ClusterTrustBundles, "", bundle("d/s", labelled), bundle("d/s", nil)), "not permitted to attest"},
	} {
		t.Run(c.name, func(t *testing.T) { at.Check(t, at.Run(Attest(c.allowed), c.a), c.want) })
	}
}

func TestSubject(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := func(group string) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{Organization: []string{group}}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	const client = certificatesv1.KubeAPIServerClientSignerName
	for _, c := range []struct {
		name, signer string
		data         []byte
		want         string
	}{
		{"somebody", client, request("devs"), ""},
		{"masters", client, request("system:masters"), "system:masters"},
		{"masters elsewhere", "d/s", request("system:masters"), ""},
		{"no request", client, []byte("x"), "PEM block"},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := csr(c.signer)
			obj.Spec.Request = c.data
			at.Check(t, at.Run(Subject(), at.Create(admission.CertificateSigningRequests, obj)), c.want)
		})
	}
}
