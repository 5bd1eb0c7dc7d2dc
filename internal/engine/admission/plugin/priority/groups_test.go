package priority

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

func TestGroups(t *testing.T) {
	gates, err := features.Parse([]string{"GenericWorkload=true,PodGroupPreemptionPolicy=true"}, features.Now())
	if err != nil {
		t.Fatal(err)
	}
	seven, lower := int32(7), schedulingv1alpha3.PreemptLowerPriority
	for name, c := range map[string]struct {
		gates features.Set
		spec  schedulingv1alpha3.PodGroupSpec
		want  string
	}{
		"class":        {gates, schedulingv1alpha3.PodGroupSpec{PriorityClassName: "n", Priority: &seven}, ""},
		"off":          {features.Set{}, schedulingv1alpha3.PodGroupSpec{PriorityClassName: "n"}, ""},
		"missing":      {gates, schedulingv1alpha3.PodGroupSpec{PriorityClassName: "m"}, "no PriorityClass with name m"},
		"other value":  {gates, schedulingv1alpha3.PodGroupSpec{Priority: &seven}, "priority set in the pod group (7)"},
		"other policy": {gates, schedulingv1alpha3.PodGroupSpec{PriorityClassName: "n", PreemptionPolicy: &lower}, "PreemptionPolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &schedulingv1alpha3.PodGroup{Spec: c.spec}
			err := at.Run(New(at.NewObjects(class("n", 7, false)), c.gates), at.Create(admission.PodGroups, g))
			at.Check(t, err, c.want)
			if err != nil {
				return
			}
			if g.Spec.Priority == nil || *g.Spec.Priority != 7 {
				t.Errorf("priority %v", g.Spec.Priority)
			}
			if p := g.Spec.PreemptionPolicy; c.gates.Enabled(features.PodGroupPreemptionPolicy) != (p != nil && string(*p) == string(corev1.PreemptNever)) {
				t.Errorf("preemption policy %v", p)
			}
		})
	}
}
