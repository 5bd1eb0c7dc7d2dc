// Package policy is the API group policy/v1: pod disruption budgets. The eviction subresource of pods uses them.
package policy

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var v1 = policyv1.SchemeGroupVersion

// Resources returns every resource of the group.
func Resources() []*engine.Resource {
	return []*engine.Resource{podDisruptionBudgets()}
}

func podDisruptionBudgets() *engine.Resource {
	return &engine.Resource{
		Plural: "poddisruptionbudgets", Singular: "poddisruptionbudget", Kind: "PodDisruptionBudget",
		ShortNames: []string{"pdb"},
		Namespaced: true,
		Prefix:     "poddisruptionbudgets",
		Hub:        v1,
		Former:     &engine.Former{GroupVersion: schema.GroupVersion{Group: v1.Group, Version: "v1beta1"}, Read: func(obj engine.Object) { readBeta(obj.(*policyv1.PodDisruptionBudget)) }},
		Versions:   []*engine.Version{engine.VersionOf[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](v1, stripReserved)},
		Rules: engine.Typed[*policyv1.PodDisruptionBudget]{
			PrepareCreate: func(_ context.Context, b *policyv1.PodDisruptionBudget) {
				b.Status = policyv1.PodDisruptionBudgetStatus{}
				b.Generation = 1
			},
			PrepareUpdate: func(_ context.Context, b, old *policyv1.PodDisruptionBudget) {
				b.Status = old.Status
				rules.RaiseGeneration(&b.ObjectMeta, &old.ObjectMeta, b.Spec, old.Spec)
			},
			Validate:             validate,
			ValidateUpdate:       validateUpdate,
			NeedsResourceVersion: true,
			Reset:                engine.ResetStatus,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*policyv1.PodDisruptionBudget]{
			PrepareUpdate:        func(_ context.Context, b, old *policyv1.PodDisruptionBudget) { b.Spec = old.Spec },
			ValidateUpdate:       validateStatus,
			NeedsResourceVersion: true,
			Reset:                engine.ResetSpec,
		})},
		Table: podDisruptionBudgetTable(),
	}
}
