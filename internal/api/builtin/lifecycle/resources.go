// Package lifecycle is the API group lifecycle.k8s.io: requests to evict pods gracefully, and the evictions that
// kube-controller-manager makes of them, by which responders work one after the other.
package lifecycle

import (
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

var v1alpha1 = lifecyclev1alpha1.SchemeGroupVersion

// Deps is what this group needs from the rest of the server.
type Deps struct {
	// Gates says which features are on.
	Gates features.Set
	// Now is the server's clock.
	Now func() time.Time
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	if !d.Gates.Enabled(features.EvictionRequestAPI) {
		return nil
	}
	return engine.Kinds(evictions(d), evictionRequests())
}

func evictionRequests() *engine.Resource {
	return &engine.Resource{
		Plural: "evictionrequests", Kind: "EvictionRequest",
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[lifecyclev1alpha1.EvictionRequest, lifecyclev1alpha1.EvictionRequestList](v1alpha1, nil)},
		Rules: engine.Typed[*lifecyclev1alpha1.EvictionRequest]{
			StatusApart:          true,
			CountsSpec:           true,
			Validate:             validateRequest,
			ValidateUpdate:       validateRequestUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.LoneStatus(engine.Typed[*lifecyclev1alpha1.EvictionRequest]{
			ValidateUpdate:       validateRequestStatus,
			NeedsResourceVersion: true,
		})},
		Table: requestTable(),
	}
}

func evictions(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "evictions", Kind: "Eviction",
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[lifecyclev1alpha1.Eviction, lifecyclev1alpha1.EvictionList](v1alpha1, nil)},
		Rules: engine.Typed[*lifecyclev1alpha1.Eviction]{
			StatusApart:          true,
			CountsSpec:           true,
			Validate:             validateEviction,
			ValidateUpdate:       validateEvictionUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.LoneStatus(engine.Typed[*lifecyclev1alpha1.Eviction]{
			ValidateUpdate:       d.validateEvictionStatus,
			NeedsResourceVersion: true,
		})},
		Table: evictionTable(d.Now),
	}
}
