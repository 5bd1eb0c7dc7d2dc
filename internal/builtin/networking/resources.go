// Package networking is the API group networking.k8s.io/v1: ingresses and their classes, network policies, and the
// address ranges and addresses of services.
package networking

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

var v1 = networkingv1.SchemeGroupVersion

// Resources returns every resource of the group.
func Resources() []*engine.Resource {
	return []*engine.Resource{
		ingresses(),
		ingressClasses(),
		ipAddresses(),
		networkPolicies(),
		serviceCIDRs(),
	}
}
