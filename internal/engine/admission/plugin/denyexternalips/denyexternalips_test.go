package denyexternalips

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestExternalIPs(t *testing.T) {
	svc := func(ips ...string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "ns"}, Spec: corev1.ServiceSpec{ExternalIPs: ips}}
	}
	at.Check(t, at.Run(New(), at.Create(admission.Services, svc())), "")
	at.Check(t, at.Run(New(), at.Create(admission.Services, svc("1.1.1.1"))), "external IPs")
	at.Check(t, at.Run(New(), at.Update(admission.Services, "", svc("1.1.1.1"), svc("2.2.2.2", "1.1.1.1"))), "")
	at.Check(t, at.Run(New(), at.Update(admission.Services, "", svc("1.1.1.1", "3.3.3.3"), svc("1.1.1.1"))), "external IPs")
	at.Check(t, at.Run(New(), at.Update(admission.Services, "status", svc("3.3.3.3"), svc())), "")
}
