// Package coordination is the API group coordination.k8s.io: leases, and candidates for them.
package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

var (
	v1      = coordinationv1.SchemeGroupVersion
	v1beta1 = coordinationv1beta1.SchemeGroupVersion
)

// Resources returns every resource of the group.
func Resources() []*engine.Resource {
	return engine.Kinds(leases(), leaseCandidates())
}

func leases() *engine.Resource {
	return &engine.Resource{
		Plural: "leases", Kind: "Lease",
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[coordinationv1.Lease, coordinationv1.LeaseList](v1, nil)},
		Rules: engine.Typed[*coordinationv1.Lease]{
			Validate:             validate,
			ValidateUpdate:       validateUpdate,
			CreateOnUpdate:       true,
			NeedsResourceVersion: true,
		}.Rules(),
		Table: leaseTable(),
	}
}
