package runtimeclass

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestRuntimeClass(t *testing.T) {
	overhead := func(n string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(n)} }
	name := func(s string) *string { return &s }
	heavy := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "heavy"},
		Overhead:   &nodev1.Overhead{PodFixed: overhead("1")},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"a": "b"}, Tolerations: []corev1.Toleration{{Key: "k", Operator: "Exists"}}}}
	light := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "light"}}
	for _, c := range []struct {
		name string
		spec corev1.PodSpec
		want string
	}{
		{"none", corev1.PodSpec{}, ""},
		{"overhead without class", corev1.PodSpec{Overhead: overhead("1")}, "without corresponding RuntimeClass"},
		{"missing", corev1.PodSpec{RuntimeClassName: name("x")}, "not found"},
		{"light", corev1.PodSpec{RuntimeClassName: name("light")}, ""},
		{"light with overhead", corev1.PodSpec{RuntimeClassName: name("light"), Overhead: overhead("1")}, "without corresponding RuntimeClass"},
		{"heavy", corev1.PodSpec{RuntimeClassName: name("heavy"), NodeSelector: map[string]string{"c": "d"}}, ""},
		{"other overhead", corev1.PodSpec{RuntimeClassName: name("heavy"), Overhead: overhead("2")}, "doesn't match"},
		{"other selector", corev1.PodSpec{RuntimeClassName: name("heavy"), NodeSelector: map[string]string{"a": "c"}}, "conflict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: c.spec}
			at.Check(t, at.Run(New(at.NewObjects(heavy, light)), at.Create(admission.Pods, pod)), c.want)
			if c.name == "heavy" && (pod.Spec.Overhead.Cpu().String() != "1" || len(pod.Spec.NodeSelector) != 2 || len(pod.Spec.Tolerations) != 1) {
				t.Errorf("got %+v", pod.Spec)
			}
		})
	}
	if len(heavy.Scheduling.NodeSelector) != 1 {
		t.Error("the class was changed")
	}
}
