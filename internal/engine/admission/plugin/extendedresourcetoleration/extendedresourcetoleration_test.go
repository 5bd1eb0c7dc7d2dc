package extendedresourcetoleration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestTolerations(t *testing.T) {
	asking := func(name corev1.ResourceName) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("1")}}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{asking("example.com/b")}, Containers: []corev1.Container{asking("cpu"), asking("example.com/a")},
		Tolerations: []corev1.Toleration{{Key: "example.com/b", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}}}
	for range 2 { // the second time they are there
		at.Check(t, at.Run(New(), at.Create(admission.Pods, pod)), "")
		if got := pod.Spec.Tolerations; len(got) != 2 || got[0].Key != "example.com/b" || got[1].Key != "example.com/a" {
			t.Errorf("got %v", got)
		}
	}
}
