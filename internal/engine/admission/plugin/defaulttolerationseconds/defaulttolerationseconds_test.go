package defaulttolerationseconds

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestTolerations(t *testing.T) {
	for _, c := range []struct {
		name  string
		given []corev1.Toleration
		added int
	}{
		{"none", nil, 2},
		{"one", []corev1.Toleration{{Key: corev1.TaintNodeNotReady}}, 1},
		{"other effect", []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}, 2},
		{"all", []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, 0},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: c.given}}
		at.Check(t, at.Run(New(30, 40), at.Create(admission.Pods, pod)), "")
		if got := len(pod.Spec.Tolerations) - len(c.given); got != c.added {
			t.Errorf("%s: added %d", c.name, got)
		}
		if c.added == 2 && *pod.Spec.Tolerations[len(c.given)].TolerationSeconds != 30 {
			t.Errorf("%s: %v", c.name, pod.Spec.Tolerations)
		}
	}
}
