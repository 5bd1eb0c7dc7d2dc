// Package networking is the API group networking.k8s.io/v1: ingresses and their classes, network policies, and the
// address ranges and addresses of services.
package networking

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

var v1 = networkingv1.SchemeGroupVersion

// Deps are what the resources need of the server.
type Deps struct {
	// Gates says which features are on.
	Gates features.Set
}

// sloppy says that addresses may have forms that are no longer valid.
func (d Deps) sloppy() bool { return d.Gates.Off(features.StrictIPCIDRValidation) }

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return engine.Kinds(
		ingresses(d),
		ingressClasses(),
		ipAddresses(),
		networkPolicies(d),
		serviceCIDRs(d),
	)
}
