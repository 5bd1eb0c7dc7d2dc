// Package scheduling is the API group scheduling.k8s.io: priority classes, and groups of pods that are scheduled together,
// with the workloads that are templates of such groups.
package scheduling

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	v1      = schedulingv1.SchemeGroupVersion
	v1beta1 = schedulingv1beta1.SchemeGroupVersion
	// v1alpha3 has all kinds of groups, and k8s.io/api has the validation of its types.
	v1alpha3 = schedulingv1alpha3.SchemeGroupVersion
)

// Deps is what this group needs from the rest of the server.
type Deps struct {
	// Gates says which features are on.
	Gates features.Set
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	all := []*engine.Resource{priorityClasses()}
	if d.Gates.Enabled(features.GenericWorkload) {
		all = append(all, d.workloads(), d.podGroups())
	}
	if d.Gates.Enabled(features.CompositePodGroup) {
		all = append(all, d.compositePodGroups())
	}
	return engine.Kinds(all...)
}

func priorityClasses() *engine.Resource {
	return &engine.Resource{
		Plural: "priorityclasses", Kind: "PriorityClass",
		ShortNames: []string{"pc"},
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
