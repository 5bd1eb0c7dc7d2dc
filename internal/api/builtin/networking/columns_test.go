package networking

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"IPAddress":     celltest.For[networkingv1.IPAddress](ipAddressTable()),
		"Ingress":       celltest.For[networkingv1.Ingress](ingressTable()),
		"IngressClass":  celltest.For[networkingv1.IngressClass](ingressClassTable()),
		"NetworkPolicy": celltest.For[networkingv1.NetworkPolicy](networkPolicyTable()),
		"ServiceCIDR":   celltest.For[networkingv1.ServiceCIDR](serviceCIDRTable()),
	})
}
