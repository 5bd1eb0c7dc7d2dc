package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// clusterTrustBundles has no v1alpha1, whose last version was 1.36.
func clusterTrustBundles() *engine.Resource {
	return &engine.Resource{
		Plural: "clustertrustbundles", Kind: "ClusterTrustBundle",
		Stored: &engine.Stored{GroupVersion: v1beta1},
		Versions: engine.Renamed(engine.VersionOf[certificatesv1.ClusterTrustBundle, certificatesv1.ClusterTrustBundleList](v1, nil),
			engine.VersionOf[certificatesv1beta1.ClusterTrustBundle, certificatesv1beta1.ClusterTrustBundleList](v1beta1, nil),
		),
		Rules: engine.Typed[*certificatesv1.ClusterTrustBundle]{
			Validate:             validateTrustBundle,
			ValidateUpdate:       validateTrustBundleUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Fields: engine.Fields(func(b *certificatesv1.ClusterTrustBundle) fields.Set {
			return fields.Set{"spec.signerName": b.Spec.SignerName}
		}),
		Table: trustBundleTable(),
	}
}

func validateTrustBundle(_ context.Context, b *certificatesv1.ClusterTrustBundle) field.ErrorList {
	e := trustBundleErrors(b)
	trustAnchors(b.Spec.TrustBundle, e.Field("trustBundle"))
	return e.List()
}

// validateTrustBundleUpdate does not read anchors that stay as they are, so that a newer parser does not refuse them.
func validateTrustBundleUpdate(_ context.Context, b, old *certificatesv1.ClusterTrustBundle) field.ErrorList {
	e := trustBundleErrors(b)
	e.Add(rules.ObjectMetaUpdate(&b.ObjectMeta, &old.ObjectMeta))
	e.Add(rules.Immutable(b.Spec.SignerName, old.Spec.SignerName, e.Path().Child("signerName")))
	if b.Spec.TrustBundle != old.Spec.TrustBundle {
		trustAnchors(b.Spec.TrustBundle, e.Field("trustBundle"))
	}
	return e.List()
}

// trustBundleErrors begins the validation of a bundle's spec with everything but the anchors.
func trustBundleErrors(b *certificatesv1.ClusterTrustBundle) rules.Errors {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMeta(&b.ObjectMeta, false, rules.TrustBundleName(b.Spec.SignerName)))
	if b.Spec.SignerName != "" {
		rules.SignerName(b.Spec.SignerName, e.Field("signerName"))
	}
	return e
}

// trustAnchors requires certificates of authorities, in PEM, each of them once. The errors do not repeat the bundle, which may be
// large.
func trustAnchors(bundle string, e rules.Errors) {
	const longest = 1 << 20
	if len(bundle) > longest {
		e.TooLong(longest)
		return
	}
	refuse := func(format string, args ...any) { e.Invalid("<value omitted>", fmt.Sprintf(format, args...)) }
	first, valid := map[string]int{}, true
	var repeated []int
	rest := []byte(bundle)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if fault := anchorFault(block); fault != "" {
			refuse("entry %d %s", i, fault)
			valid = false
			continue
		}
		if _, ok := first[string(block.Bytes)]; ok {
			repeated = append(repeated, i)
			continue
		}
		first[string(block.Bytes)] = i
	}
	switch {
	case !valid: // what was refused might have been the missing anchor
	case len(first) == 0:
		refuse("at least one trust anchor must be provided")
	case len(repeated) > 0:
		refuse("entries %v repeat earlier trust anchors", repeated)
	}
}

// anchorFault returns what is wrong with a trust anchor, "" for nothing.
func anchorFault(block *pem.Block) string {
	if block.Type != "CERTIFICATE" {
		return fmt.Sprintf("has bad block type: %v", block.Type)
	}
	if len(block.Headers) > 0 {
		return "has PEM block headers"
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "does not parse as X.509"
	case !cert.IsCA:
		return "does not have the CA bit set"
	case !cert.BasicConstraintsValid:
		return "has invalid basic constraints"
	}
	return ""
}
