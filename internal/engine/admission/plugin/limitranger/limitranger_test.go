package limitranger

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func limits(items ...corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "l", Namespace: "ns"}, Spec: corev1.LimitRangeSpec{Limits: items}}
}

func newPod(requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}},
	}
}

func TestDefaults(t *testing.T) {
	r := limits(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: list("cpu", "500m", "memory", "1Gi"), DefaultRequest: list("cpu", "200m")})
	pod := newPod(nil, list("cpu", "1"))
	pod.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	at.Check(t, at.Run(New(at.NewObjects(r)), at.Create(admission.Pods, pod)), "")
	want := "LimitRanger plugin set: cpu request for container c; memory limit for container c; cpu request for init container i; cpu, memory limit for init container i"
	if got := pod.Annotations[annotation]; got != want {
		t.Errorf("got %q", got)
	}
	c := pod.Spec.Containers[0].Resources
	if c.Limits.Cpu().String() != "1" || c.Limits.Memory().String() != "1Gi" || c.Requests.Cpu().String() != "200m" {
		t.Errorf("got %v", c)
	}
}

func TestPods(t *testing.T) {
	container := func(i corev1.LimitRangeItem) *corev1.LimitRange { i.Type = corev1.LimitTypeContainer; return limits(i) }
	whole := func(i corev1.LimitRangeItem) *corev1.LimitRange { i.Type = corev1.LimitTypePod; return limits(i) }
	for _, c := range []struct {
		name string
		r    *corev1.LimitRange
		pod  *corev1.Pod
		want string
	}{
		{"min", container(corev1.LimitRangeItem{Min: list("cpu", "50m")}), newPod(list("cpu", "50m"), nil), ""},
		{"under min", container(corev1.LimitRangeItem{Min: list("cpu", "50m")}), newPod(list("cpu", "49m"), nil), "but request is 49m"},
		{"min without request", container(corev1.LimitRangeItem{Min: list("cpu", "50m")}), newPod(nil, nil), "No request is specified"},
		{"limit under min", container(corev1.LimitRangeItem{Min: list("cpu", "50m")}), newPod(list("cpu", "50m"), list("cpu", "10m")), "but limit is 10m"},
		{"over max", container(corev1.LimitRangeItem{Max: list("cpu", "1")}), newPod(list("cpu", "1"), list("cpu", "1100m")), "but limit is 1100m"},
		{"max without limit", container(corev1.LimitRangeItem{Max: list("cpu", "1")}), newPod(list("cpu", "1"), nil), "No limit is specified"},
		{"ratio", container(corev1.LimitRangeItem{MaxLimitRequestRatio: list("cpu", "2")}), newPod(list("cpu", "1"), list("cpu", "2")), ""},
		{"over ratio", container(corev1.LimitRangeItem{MaxLimitRequestRatio: list("cpu", "2")}), newPod(list("cpu", "1"), list("cpu", "2100m")), "provided ratio is 2.1"},
		{"pod max", whole(corev1.LimitRangeItem{Max: list("cpu", "1")}), newPod(nil, list("cpu", "1")), ""},
		{"over pod max", whole(corev1.LimitRangeItem{Max: list("cpu", "1")}), func() *corev1.Pod {
			p := newPod(nil, list("cpu", "600m"))
			p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0])
			return p
		}(), "maximum cpu usage per Pod is 1, but limit is 1200m"},
		{"whole pod states less", whole(corev1.LimitRangeItem{Max: list("cpu", "1")}), func() *corev1.Pod {
			p := newPod(nil, list("cpu", "2"))
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: list("cpu", "1")}
			return p
		}(), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			at.Check(t, at.Run(New(at.NewObjects(c.r)), at.Create(admission.Pods, c.pod)), c.want)
		})
	}
}

func TestWhichWrites(t *testing.T) {
	p := New(at.NewObjects(limits(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: list("cpu", "1")})))
	big := newPod(nil, list("cpu", "2"))
	now := metav1.Now()
	ending := newPod(nil, nil)
	ending.DeletionTimestamp = &now
	at.Check(t, at.Run(p, at.Update(admission.Pods, "", big, newPod(nil, nil))), "")
	at.Check(t, at.Run(p, at.Update(admission.Pods, "status", big, newPod(nil, nil))), "")
	at.Check(t, at.Run(p, at.Update(admission.Pods, "resize", big, newPod(nil, nil))), "maximum cpu")
	at.Check(t, at.Run(p, at.Update(admission.Pods, "resize", big, ending)), "")
}

func TestClaims(t *testing.T) {
	p := New(at.NewObjects(limits(corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Min: list("storage", "1Gi"), Max: list("storage", "2Gi")})))
	for size, want := range map[string]string{"1Gi": "", "2Gi": "", "1Mi": "minimum storage", "3Gi": "maximum storage"} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"}}
		claim.Spec.Resources.Requests = list("storage", size)
		at.Check(t, at.Run(p, at.Create(admission.PersistentVolumeClaims, claim)), want)
	}
}
