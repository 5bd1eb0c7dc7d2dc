package podresize

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func cpu(n string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(n)}}
}

func pod(generation int64, node, n string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Generation: generation},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: cpu(n)}}},
	}
}

func node(name, os string, features ...string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: os}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("2")}, DeclaredFeatures: features},
	}
}

func TestResize(t *testing.T) {
	for _, c := range []struct {
		name  string
		pod   *corev1.Pod
		want  string
		cause metav1.CauseType
	}{
		{"fits", pod(2, "n", "2"), "", ""},
		{"too large", pod(2, "n", "3"), "enough allocatable resources: cpu", causeCapacity},
		{"windows", pod(2, "w", "1"), "only supported on linux", causePlatform},
		{"no such node", pod(2, "x", "1"), "not found", ""},
		{"nowhere yet", pod(2, "", "9"), "", ""},
		{"unchanged", pod(1, "n", "9"), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Resize(at.NewObjects(node("n", "linux"), node("w", "windows")))
			err := at.Run(p, at.Update(admission.Pods, "resize", c.pod, pod(1, c.pod.Spec.NodeName, "1")))
			at.Check(t, err, c.want)
			var st *apierrors.StatusError
			if c.cause != "" && (!errors.As(err, &st) || len(st.ErrStatus.Details.Causes) != 1 || st.ErrStatus.Details.Causes[0].Type != c.cause) {
				t.Errorf("causes of %#v", err)
			}
		})
	}
}

func TestFeatures(t *testing.T) {
	whole := pod(2, "n", "1")
	r := cpu("1")
	whole.Spec.Resources = &r
	init := func(n string) *corev1.Pod {
		p := pod(2, "n", "1")
		p.Spec.InitContainers = []corev1.Container{{Resources: cpu(n)}}
		return p
	}
	volume := func(medium corev1.StorageMedium, size string) *corev1.Pod {
		p := pod(2, "n", "1")
		limit := resource.MustParse(size)
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium, SizeLimit: &limit}}}}
		return p
	}
	old := func(p *corev1.Pod) *corev1.Pod { p.Generation = 1; return p }
	for _, c := range []struct {
		name     string
		pod, old *corev1.Pod
		features []string
		want     string
	}{
		{"containers", pod(2, "n", "2"), pod(1, "n", "1"), nil, ""},
		{"whole pod", whole, pod(1, "n", "1"), nil, "InPlacePodLevelResourcesVerticalScaling"},
		{"whole pod on a node that can", whole, pod(1, "n", "1"), []string{"InPlacePodLevelResourcesVerticalScaling"}, ""},
		{"init container", init("2"), old(init("1")), nil, "InPlacePodVerticalScalingInitContainers"},
		{"init container on a node that can", init("2"), old(init("1")), []string{"InPlacePodVerticalScalingInitContainers"}, ""},
		{"volume in memory", volume("Memory", "2Gi"), old(volume("Memory", "1Gi")), nil, "InPlacePodVerticalScalingMemoryBackedVolumes"},
		{"volume in memory on a node that can", volume("Memory", "2Gi"), old(volume("Memory", "1Gi")), []string{"InPlacePodVerticalScalingMemoryBackedVolumes"}, ""},
		{"volume on disk", volume("", "2Gi"), old(volume("", "1Gi")), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Features(at.NewObjects(node("n", "linux", c.features...)))
			at.Check(t, at.Run(p, at.Update(admission.Pods, "resize", c.pod, c.old)), c.want)
		})
	}
}
