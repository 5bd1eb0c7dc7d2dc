// Package policy is the API group policy/v1: pod disruption budgets. The eviction subresource of pods uses them.
package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
)

var v1 = policyv1.SchemeGroupVersion

// Resources returns every resource of the group.
func Resources() []*engine.Resource {
	return engine.Kinds(podDisruptionBudgets())
}

func podDisruptionBudgets() *engine.Resource {
	return &engine.Resource{
		Plural: "poddisruptionbudgets", Kind: "PodDisruptionBudget",
		ShortNames: []string{"pdb"},
		Namespaced: true,
		Former:     &engine.Former{GroupVersion: schema.GroupVersion{Group: v1.Group, Version: "v1beta1"}, Read: func(obj engine.Object) { readBeta(obj.(*policyv1.PodDisruptionBudget)) }},
		Versions:   []*engine.Version{engine.VersionOf[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](v1, stripReserved)},
		Rules: engine.Typed[*policyv1.PodDisruptionBudget]{
			StatusApart:          true,
			CountsSpec:           true,
			Validate:             validate,
			ValidateUpdate:       validateUpdate,
			NeedsResourceVersion: true,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*policyv1.PodDisruptionBudget]{
			ValidateUpdate:       validateStatus,
			NeedsResourceVersion: true,
		})},
		Table: podDisruptionBudgetTable(),
	}
}
