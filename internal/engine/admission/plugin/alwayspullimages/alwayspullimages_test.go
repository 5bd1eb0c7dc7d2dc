package alwayspullimages

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestPull(t *testing.T) {
	pod := func(image string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Image: image}}, Containers: []corev1.Container{{Image: "c", ImagePullPolicy: corev1.PullNever}},
			Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}}}}}}
	}
	fresh, same, other := pod("i"), pod("i"), pod("j")
	p := New()
	at.Check(t, at.Run(p, at.Create(admission.Pods, fresh)), "")
	at.Check(t, at.Run(p, at.Update(admission.Pods, "", same, pod("i"))), "")
	at.Check(t, at.Run(p, at.Update(admission.Pods, "", other, pod("i"))), "")
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{{"new", fresh, true}, {"same images", same, false}, {"other image", other, true}} {
		s := c.pod.Spec
		if got := s.InitContainers[0].ImagePullPolicy == corev1.PullAlways && s.Containers[0].ImagePullPolicy == corev1.PullAlways &&
			s.Volumes[0].Image.PullPolicy == corev1.PullAlways; got != c.want {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	if err := validate(t.Context(), at.Create(admission.Pods, pod("i"))); err == nil {
		t.Error("a pod that does not pull was accepted")
	}
}
