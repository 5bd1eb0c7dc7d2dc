// Package scheduling is the API group scheduling.k8s.io/v1: priority classes.
package scheduling

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/rules"
)

var v1 = schedulingv1.SchemeGroupVersion

// Resources returns every resource of the group.
func Resources() []*engine.Resource {
	return []*engine.Resource{priorityClasses()}
}

func priorityClasses() *engine.Resource {
	return &engine.Resource{
		Plural: "priorityclasses", Singular: "priorityclass", Kind: "PriorityClass",
		ShortNames: []string{"pc"},
		Prefix:     "priorityclasses",
		Hub:        v1,
		Versions:   []*engine.Version{engine.VersionOf[schedulingv1.PriorityClass, schedulingv1.PriorityClassList](v1, defaultPriorityClass)},
		Rules: engine.Typed[*schedulingv1.PriorityClass]{
			PrepareCreate:  func(_ context.Context, c *schedulingv1.PriorityClass) { c.Generation = 1 },
			Validate:       validate,
			ValidateUpdate: validateUpdate,
			CheckDelete:    checkDelete,
		}.Rules(),
		Table: priorityClassTable(),
	}
}

func defaultPriorityClass(c *schedulingv1.PriorityClass) {
	rules.DefaultPtr(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
}
