package certificates

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

// authority returns a certificate in PEM, for signing others or not.
func authority(t *testing.T, ca bool) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: ca, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestTrustBundle(t *testing.T) {
	one, two, leaf := authority(t, true), authority(t, true), authority(t, false)
	bundle := func(parts ...[]byte) string { return fmt.Sprintf("{spec: {trustBundle: %q}}", bytes.Join(parts, nil)) }
	block := func(b pem.Block) []byte { return pem.EncodeToMemory(&b) }
	k := rulestest.Of(t, Resources(Deps{}), "clustertrustbundles", fmt.Sprintf(`
metadata: {name: "example.com:signer:b"}
spec: {signerName: example.com/signer, trustBundle: %q}
`, one))
	anchors := []string{"spec.trustBundle Invalid"}
	name := []string{"metadata.name Invalid"}
	k.Create(t, []rulestest.Case{
		{Name: "two anchors, with text between them", Edit: bundle(one, []byte("# the other\n"), two)},
		{Name: "no anchor", Edit: bundle(), Want: anchors},
		{Name: "no PEM", Edit: bundle([]byte("x")), Want: anchors},
		{Name: "anchor repeated", Edit: bundle(one, two, one), Want: anchors},
		{Name: "no authority", Edit: bundle(one, leaf), Want: anchors},
		{Name: "key", Edit: bundle(block(pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})), Want: anchors},
		{Name: "no certificate", Edit: bundle(block(pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), Want: anchors},
		{Name: "headers", Edit: bundle(block(pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: []byte("x")})), Want: anchors},
		{Name: "large", Edit: bundle(one, []byte(strings.Repeat("#", 1<<20))), Want: []string{"spec.trustBundle TooLong"}},
		{Name: "name of another signer", Edit: `{metadata: {name: "example.com:x:b"}}`, Want: name},
		{Name: "name of no signer", Edit: `{metadata: {name: b}}`, Want: name},
		{Name: "no signer", Edit: `{metadata: {name: b}, spec: {signerName: ""}}`},
		{Name: "no signer, but its name", Edit: `{spec: {signerName: ""}}`, Want: name},
		{Name: "signer", Edit: `{metadata: {name: "foo:b"}, spec: {signerName: foo}}`, Want: []string{"spec.signerName Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "anchors", Edit: bundle(two)},
		{Name: "no anchors", Edit: bundle(), Want: anchors},
		{Name: "signer", Edit: `{spec: {signerName: example.com/x}}`, Want: []string{"metadata.name Invalid", "spec.signerName Invalid"}},
	})
}
