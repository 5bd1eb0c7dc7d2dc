package certificates

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kanzen-io/kanzen/internal/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"CertificateSigningRequest": celltest.For[certificatesv1.CertificateSigningRequest](certificateSigningRequestTable()),
	})
}
