// Package coordination is the API group coordination.k8s.io/v1: leases.
package coordination

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

var v1 = coordinationv1.SchemeGroupVersion

// Resources returns every resource of the group.
func Resources() []*engine.Resource {
	return []*engine.Resource{leases()}
}

func leases() *engine.Resource {
	return &engine.Resource{
		Plural: "leases", Singular: "lease", Kind: "Lease",
		Namespaced: true,
		Prefix:     "leases",
		Hub:        v1,
		Versions:   []*engine.Version{engine.VersionOf[coordinationv1.Lease, coordinationv1.LeaseList](v1, nil)},
		Rules: engine.Typed[*coordinationv1.Lease]{
			PrepareCreate:        func(_ context.Context, l *coordinationv1.Lease) { dropElection(l, &coordinationv1.Lease{}) },
			PrepareUpdate:        func(_ context.Context, l, old *coordinationv1.Lease) { dropElection(l, old) },
			Validate:             validate,
			ValidateUpdate:       validateUpdate,
			CreateOnUpdate:       true,
			NeedsResourceVersion: true,
		}.Rules(),
		Table: leaseTable(),
	}
}

// dropElection drops the fields of a disabled feature, unless old has them.
func dropElection(l, old *coordinationv1.Lease) {
	if old.Spec.Strategy == nil {
		l.Spec.Strategy = nil
	}
	if old.Spec.PreferredHolder == nil {
		l.Spec.PreferredHolder = nil
	}
}
