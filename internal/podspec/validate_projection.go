package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/rules"
)

// Trust bundles and pod certificates are disabled for new pods; these rules are for pods that already use them.

var keyTypes = []string{"ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"}

func trustBundle(b *corev1.ClusterTrustBundleProjection, e rules.Errors) {
	switch {
	case b.Name != nil && b.SignerName != nil:
		e.Invalid("", "only one of name and signerName may be used")
	case b.Name != nil:
		e.Present("name", *b.Name)
		plain := *b.Name
		if i := strings.LastIndexByte(plain, ':'); i >= 0 { // SIGNER:NAME
			plain = plain[i+1:]
		}
		e.Name("name", plain, rules.Subdomain)
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
}

func podCertificate(c *corev1.PodCertificateProjection, claim func(string), e rules.Errors) {
	const shortest, longest, longestOwn = 3600, 91 * 24 * 3600, 24 * 3600
	rules.SignerName(c.SignerName, e.Field("signerName"))
	for key := range c.UserAnnotations {
		e.Add(validation.IsDomainPrefixedKey(e.Path.Child("userAnnotations"), strings.ToLower(key)))
	}
	if !slices.Contains(keyTypes, c.KeyType) {
		e.AddError(field.NotSupported(e.Path.Child("keyType"), c.KeyType, keyTypes))
	}
	if s := c.MaxExpirationSeconds; s != nil {
		most := int64(longest)
		if host, _, _ := strings.Cut(c.SignerName, "/"); host == "kubernetes.io" || strings.HasSuffix(host, ".kubernetes.io") {
			most = longestOwn
		}
		e.Range("maxExpirationSeconds", int64(*s), shortest, most)
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
	if n == 0 {
		e.Required("specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
}
