package certificates

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"CertificateSigningRequest": celltest.For[certificatesv1.CertificateSigningRequest](certificateSigningRequestTable()),
		"ClusterTrustBundle":        celltest.For[certificatesv1.ClusterTrustBundle](trustBundleTable()),
		"PodCertificateRequest":     celltest.For[certificatesv1beta1.PodCertificateRequest](podCertificateTable()),
	})
}
