package modes

import (
	"math/rand/v2"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// changes are what happens to a pod.
var changes = []func(p *corev1.Pod){
	func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
	func(p *corev1.Pod) { p.Status.PodIP += "1" },
	func(p *corev1.Pod) { p.Labels = map[string]string{corev1.MirrorPodAnnotationKey: "a"} },
	func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "a"} },
	func(p *corev1.Pod) { p.Annotations = map[string]string{"a": corev1.MirrorPodAnnotationKey} },
	func(p *corev1.Pod) { p.Annotations = nil },
	func(p *corev1.Pod) { p.Spec.NodeName = "n" },
	func(p *corev1.Pod) { p.Spec.NodeName = "" },
	func(p *corev1.Pod) { p.Spec.ServiceAccountName += "s" },
	func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "secret"}} },
	func(p *corev1.Pod) {
		made := "made"
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &made}}
	},
	func(p *corev1.Pod) { p.Status.ResourceClaimStatuses = nil },
	func(p *corev1.Pod) {
		template := "t"
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &template}}
	},
	func(p *corev1.Pod) { p.Spec.ResourceClaims = nil },
	func(p *corev1.Pod) {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"}
	},
	func(p *corev1.Pod) { p.Status.ExtendedResourceClaimStatus = nil },
	func(p *corev1.Pod) {
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubelet"})
	},
}

// A change that is left out gives the pod's node access to what it had access to before.
func TestUsesMayDiffer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}
	left := 0
	for range 20_000 {
		was := pod.DeepCopy()
		for range 1 + r.IntN(2) {
			changes[r.IntN(len(changes))](pod)
		}
		if len(pod.ManagedFields) > 3 {
			pod.ManagedFields = nil
		}
		a, errA := was.Marshal()
		b, errB := pod.Marshal()
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if usesMayDiffer(a, b) {
			continue
		}
		left++
		if was.Spec.NodeName != pod.Spec.NodeName || !reflect.DeepEqual(usesOf(was), usesOf(pod)) {
			t.Fatalf("left out: %v becomes %v", was, pod)
		}
	}
	if left < 1000 {
		t.Errorf("%d changes were left out", left)
	}
}

// What is not written as Kubernetes writes it always counts.
func TestUsesOfMalformedPods(t *testing.T) {
	good, err := (&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if usesMayDiffer(good, good) {
		t.Error("a pod differs from itself")
	}
	for _, bad := range [][]byte{good[:len(good)-1], append(good, good...), append(good, 0xff), append(good, podSpec<<3|2, 5)} {
		if !usesMayDiffer(bad, bad) {
			t.Errorf("%q is taken for a pod", bad)
		}
	}
}
