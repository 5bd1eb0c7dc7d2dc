package antiaffinity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestTopology(t *testing.T) {
	for key, want := range map[string]string{corev1.LabelHostname: "", corev1.LabelTopologyZone: "is allowed"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: corev1.PodSpec{Affinity: &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key}}}}}}
		at.Check(t, at.Run(New(), at.Create(admission.Pods, pod)), want)
	}
	at.Check(t, at.Run(New(), at.Create(admission.Pods, &corev1.Pod{})), "")
}
