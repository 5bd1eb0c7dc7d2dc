// Package lifecycle is the API group lifecycle.k8s.io: requests to evict pods gracefully, and the evictions that
// kube-controller-manager makes of them, by which responders work one after the other.
package lifecycle

import (
	"context"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
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
	return []*engine.Resource{evictions(d), evictionRequests()}
}

func evictionRequests() *engine.Resource {
	return &engine.Resource{
		Plural: "evictionrequests", Singular: "evictionrequest", Kind: "EvictionRequest",
		Namespaced: true,
		Prefix:     "evictionrequests",
		Hub:        v1alpha1,
		Versions:   []*engine.Version{engine.VersionOf[lifecyclev1alpha1.EvictionRequest, lifecyclev1alpha1.EvictionRequestList](v1alpha1, nil)},
		Rules: engine.Typed[*lifecyclev1alpha1.EvictionRequest]{
			PrepareCreate: func(_ context.Context, r *lifecyclev1alpha1.EvictionRequest) {
				r.Status, r.Generation = lifecyclev1alpha1.EvictionRequestStatus{}, 1
			},
			PrepareUpdate: func(_ context.Context, r, old *lifecyclev1alpha1.EvictionRequest) {
				r.Status = old.Status
				rules.RaiseGeneration(&r.ObjectMeta, &old.ObjectMeta, r.Spec, old.Spec)
			},
			Validate:             validateRequest,
			ValidateUpdate:       validateRequestUpdate,
			NeedsResourceVersion: true,
			Reset:                engine.ResetStatus,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*lifecyclev1alpha1.EvictionRequest]{
			PrepareUpdate: func(_ context.Context, r, old *lifecyclev1alpha1.EvictionRequest) {
				r.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&r.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate:       validateRequestStatus,
			NeedsResourceVersion: true,
			Reset:                engine.ResetSpecAndMetadata,
		})},
		Table: requestTable(),
	}
}

func evictions(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "evictions", Singular: "eviction", Kind: "Eviction",
		Namespaced: true,
		Prefix:     "evictions",
		Hub:        v1alpha1,
		Versions:   []*engine.Version{engine.VersionOf[lifecyclev1alpha1.Eviction, lifecyclev1alpha1.EvictionList](v1alpha1, nil)},
		Rules: engine.Typed[*lifecyclev1alpha1.Eviction]{
			PrepareCreate: func(_ context.Context, v *lifecyclev1alpha1.Eviction) {
				v.Status, v.Generation = lifecyclev1alpha1.EvictionStatus{}, 1
			},
			PrepareUpdate: func(_ context.Context, v, old *lifecyclev1alpha1.Eviction) {
				v.Status = old.Status
				rules.RaiseGeneration(&v.ObjectMeta, &old.ObjectMeta, v.Spec, old.Spec)
			},
			Validate:             validateEviction,
			ValidateUpdate:       validateEvictionUpdate,
			NeedsResourceVersion: true,
			Reset:                engine.ResetStatus,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*lifecyclev1alpha1.Eviction]{
			PrepareUpdate: func(_ context.Context, v, old *lifecyclev1alpha1.Eviction) {
				v.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&v.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate:       d.validateEvictionStatus,
			NeedsResourceVersion: true,
			Reset:                engine.ResetSpecAndMetadata,
		})},
		Table: evictionTable(d.Now),
	}
}
