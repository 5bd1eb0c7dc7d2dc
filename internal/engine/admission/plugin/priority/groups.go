package priority

import (
	"context"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// group is what a group of pods, or a group of groups, says about priority.
type group struct {
	is     string
	class  *string
	value  **int32
	policy **schedulingv1alpha3.PreemptionPolicy
}

func groupOf(a *admission.Attributes) (group, bool) {
	switch g := a.Object.(type) {
	case *schedulingv1alpha3.PodGroup:
		return group{"pod group", &g.Spec.PriorityClassName, &g.Spec.Priority, &g.Spec.PreemptionPolicy}, true
	case *schedulingv1alpha3.CompositePodGroup:
		return group{"composite pod group", &g.Spec.PriorityClassName, &g.Spec.Priority, &g.Spec.PreemptionPolicy}, true
	}
	return group{}, false
}

// admitGroup resolves the priority of a new group, once.
func (p *plugin) admitGroup(ctx context.Context, a *admission.Attributes) error {
	g, ok := groupOf(a)
	if a.Operation != admission.Create {
		return nil
	}
	if !ok {
		return admission.WrongType(a)
	}
	class, err := p.classOf(ctx, a, *g.class)
	if err != nil {
		return err
	}
	value := class.Value
	if have := *g.value; have != nil && *have != value {
		return admission.Forbiddenf(a, "priority set in the %s (%d) must match the priority computed (%d) based on the priority class set in the spec", g.is, *have, value)
	}
	*g.value, *g.class = &value, class.Name
	if class.PreemptionPolicy == nil || !p.gates.Enabled(features.PodGroupPreemptionPolicy) {
		return nil
	}
	policy := schedulingv1alpha3.PreemptionPolicy(*class.PreemptionPolicy)
	if have := *g.policy; have != nil && *have != policy {
		return admission.Forbiddenf(a, "the string value of PreemptionPolicy (%s) must not be provided in %s spec; priority admission controller computed %s from the given PriorityClass name", *have, g.is, policy)
	}
	*g.policy = &policy
	return nil
}
