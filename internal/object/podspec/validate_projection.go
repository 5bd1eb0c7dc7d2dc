package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var keyTypes = []string{"ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"}

func trustBundle(b *corev1.ClusterTrustBundleProjection, e rules.Errors) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		e.Invalid("", "only one of name and signerName may be used")
	case b.Name != nil:
		e.Present("name", *b.Name)
		signer := ""
		if i := strings.LastIndexByte(*b.Name, ':'); i >= 0 {
			signer = strings.ReplaceAll((*b.Name)[:i], ":", "/")
		}
		e.Field("name").Messages(*b.Name, rules.TrustBundleName(signer)(*b.Name, false))
		if b.LabelSelector != nil {
			e.Field("labelSelector").Invalid("", "labelSelector must be unset if name is specified")
		}
	case b.SignerName != nil:
		rules.SignerName(*b.SignerName, e.Field("signerName"))
		e.LabelSelector("labelSelector", b.LabelSelector, false)
	default:
		e.Required("either name or signerName must be specified")
	}
	e.Present("path", b.Path)
	e.VolumeFile("path", b.Path)
	e.FileUser("user", b.User)
}

func podCertificate(c *corev1.PodCertificateProjection, claim func(string), e rules.Errors) {
	rules.SignerName(c.SignerName, e.Field("signerName"))
	e.UserAnnotations("userAnnotations", c.UserAnnotations)
	if !slices.Contains(keyTypes, c.KeyType) {
		e.AddError(field.NotSupported(e.Path().Child("keyType"), c.KeyType, keyTypes))
	}
	if s := c.MaxExpirationSeconds; s != nil {
		// Conformance compares these words.
		switch shortest, longest := rules.CertificateLifetimes(c.SignerName); {
		case *s < shortest:
			e.Field("maxExpirationSeconds").Invalid(*s, fmt.Sprintf("if provided, maxExpirationSeconds must be >= %d", shortest))
		case *s > longest:
			e.Field("maxExpirationSeconds").Invalid(*s, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", longest))
		}
	}
	n := 0
	for _, f := range []struct{ name, path string }{
		{"credentialBundlePath", c.CredentialBundlePath},
		{"keyPath", c.KeyPath},
		{"certificateChainPath", c.CertificateChainPath},
	} {
		if f.path != "" {
			n++
			e.VolumeFile(f.name, f.path)
			claim(f.path)
		}
	}
	e.FileUser("user", c.User)
	if n == 0 {
		e.Required("specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
}
