package priority

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

func class(name string, value int32, isDefault bool) *schedulingv1.PriorityClass {
	never := corev1.PreemptNever
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: isDefault, PreemptionPolicy: &never}
}

func TestPods(t *testing.T) {
	seven, lower := int32(7), corev1.PreemptLowerPriority
	for _, c := range []struct {
		name     string
		classes  []admission.Object
		spec     corev1.PodSpec
		class    string
		priority int32
		policy   corev1.PreemptionPolicy
		want     string
	}{
		{"no class", nil, corev1.PodSpec{}, "", 0, lower, ""},
		{"default", []admission.Object{class("d", 5, true)}, corev1.PodSpec{}, "d", 5, corev1.PreemptNever, ""},
		{"two defaults", []admission.Object{class("a", 9, true), class("b", 5, true)}, corev1.PodSpec{}, "b", 5, corev1.PreemptNever, ""},
		{"named", []admission.Object{class("n", 7, false)}, corev1.PodSpec{PriorityClassName: "n", Priority: &seven}, "n", 7, corev1.PreemptNever, ""},
		{"missing", nil, corev1.PodSpec{PriorityClassName: "n"}, "", 0, "", "no PriorityClass with name n"},
		{"other value", nil, corev1.PodSpec{Priority: &seven}, "", 0, "", "integer value of priority (7)"},
		{"other policy", []admission.Object{class("n", 7, false)}, corev1.PodSpec{PriorityClassName: "n", PreemptionPolicy: &lower}, "", 0, "", "PreemptionPolicy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: c.spec}
			err := at.Run(New(at.NewObjects(c.classes...), features.Set{}), at.Create(admission.Pods, pod))
			at.Check(t, err, c.want)
			if s := pod.Spec; err == nil && (s.PriorityClassName != c.class || *s.Priority != c.priority || *s.PreemptionPolicy != c.policy) {
				t.Errorf("got %q %d %s", s.PriorityClassName, *s.Priority, *s.PreemptionPolicy)
			}
		})
	}
}

func TestUpdateKeepsPriority(t *testing.T) {
	seven, never := int32(7), corev1.PreemptNever
	old := &corev1.Pod{Spec: corev1.PodSpec{Priority: &seven, PreemptionPolicy: &never}}
	pod := &corev1.Pod{}
	at.Check(t, at.Run(New(at.NewObjects(), features.Set{}), at.Update(admission.Pods, "", pod, old)), "")
	if *pod.Spec.Priority != 7 || *pod.Spec.PreemptionPolicy != never {
		t.Errorf("got %+v", pod.Spec)
	}
}

func TestOneDefault(t *testing.T) {
	p := New(at.NewObjects(class("a", 1, true)), features.Set{})
	at.Check(t, at.Run(p, at.Create(admission.PriorityClasses, class("b", 1, true))), "already marked as default")
	at.Check(t, at.Run(p, at.Create(admission.PriorityClasses, class("b", 1, false))), "")
	at.Check(t, at.Run(p, at.Update(admission.PriorityClasses, "", class("a", 1, true), class("a", 1, true))), "")
	at.Check(t, at.Run(p, at.Update(admission.PriorityClasses, "", class("b", 1, true), class("b", 1, false))), "already marked as default")
}
