package gated

import (
	"reflect"
	"testing"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
)

// A template holds templates, and all of them lose what is off.
func TestNestedTypes(t *testing.T) {
	workload := func() *schedulingv1alpha3.Workload {
		never := schedulingv1alpha3.PreemptNever
		leaf := schedulingv1alpha3.CompositePodGroupTemplate{Name: "leaf", PreemptionPolicy: &never}
		root := schedulingv1alpha3.CompositePodGroupTemplate{CompositePodGroupTemplates: []schedulingv1alpha3.CompositePodGroupTemplate{leaf}}
		w := &schedulingv1alpha3.Workload{}
		w.Spec.CompositePodGroupTemplates = append(w.Spec.CompositePodGroupTemplates, root)
		return w
	}
	policy := func(w *schedulingv1alpha3.Workload) *schedulingv1alpha3.PreemptionPolicy {
		return w.Spec.CompositePodGroupTemplates[0].CompositePodGroupTemplates[0].PreemptionPolicy
	}
	d := For(reflect.TypeFor[*schedulingv1alpha3.Workload](), func(gate string) bool { return gate == "PodGroupPreemptionPolicy" })
	w := workload()
	if d.Drop(w, nil); policy(w) != nil {
		t.Error("a new object keeps it")
	}
	w = workload()
	if d.Drop(w, workload()); policy(w) == nil {
		t.Error("a stored object loses it")
	}
	if For(reflect.TypeFor[*schedulingv1alpha3.Workload](), func(string) bool { return false }) != nil {
		t.Error("something is dropped, and no gate is off")
	}
}
