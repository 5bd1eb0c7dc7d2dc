package certificates

import (
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func certificateSigningRequestTable() *engine.Table {
	spec := certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()
	return engine.TableOf(certificateSigningRequestRow,
		cells.Name(),
		cells.Age(),
		cells.String("SignerName", spec["signerName"]),
		cells.String("Requestor", spec["username"]),
		cells.String("RequestedDuration", spec["expirationSeconds"]),
		cells.String("Condition", certificatesv1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
	)
}

func certificateSigningRequestRow(r *certificatesv1.CertificateSigningRequest) []any {
	lifetime := cells.None
	if s := r.Spec.ExpirationSeconds; s != nil {
		lifetime = duration.HumanDuration(time.Duration(*s) * time.Second)
	}
	return []any{
		r.Name, cells.Since(r.CreationTimestamp), cells.Or(r.Spec.SignerName, cells.None), r.Spec.Username,
		lifetime, requestState(r),
	}
}

func requestState(r *certificatesv1.CertificateSigningRequest) string {
	has := map[certificatesv1.RequestConditionType]bool{}
	for _, c := range r.Status.Conditions {
		has[c.Type] = true
	}
	state := []string{"Pending"}
	switch {
	case has[certificatesv1.CertificateDenied]: // a denial overrides an approval
		state[0] = "Denied"
	case has[certificatesv1.CertificateApproved]:
		state[0] = "Approved"
	}
	if has[certificatesv1.CertificateFailed] {
		state = append(state, "Failed")
	}
	if len(r.Status.Certificate) > 0 {
		state = append(state, "Issued")
	}
	return strings.Join(state, ",")
}

func trustBundleTable() *engine.Table {
	return engine.TableOf(func(b *certificatesv1.ClusterTrustBundle) []any {
		return []any{b.Name, cells.Or(b.Spec.SignerName, cells.None)}
	},
		cells.Name(),
		cells.String("SignerName", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]),
	)
}

func podCertificateTable() *engine.Table {
	spec := certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()
	return engine.TableOf(func(r *certificatesv1beta1.PodCertificateRequest) []any {
		s := &r.Spec
		return []any{
			r.Name, s.PodName, s.ServiceAccountName, string(s.NodeName), s.SignerName,
			cells.Or(outcome(r), "Pending"), labels.FormatLabels(s.UnverifiedUserAnnotations),
		}
	},
		cells.Name(),
		cells.String("PodName", spec["podName"]),
		cells.String("ServiceAccountName", spec["serviceAccountName"]),
		cells.String("NodeName", spec["nodeName"]),
		cells.String("SignerName", spec["signerName"]),
		cells.String("State", "Is the request Pending, Issued, Denied, or Failed?"),
		cells.String("UnverifiedUserAnnotations", spec["unverifiedUserAnnotations"]),
	)
}
