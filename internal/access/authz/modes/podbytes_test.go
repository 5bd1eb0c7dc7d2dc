package modes

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
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

// The part of a pod gives its node access to the same as the pod, and is the same if the access is.
func TestAccessPart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	filler := randfill.NewWithSeed(1).NilChance(0.5).NumElements(0, 3).MaxDepth(14).Funcs(
		func(q *resource.Quantity, _ randfill.Continue) { *q = resource.MustParse("1") })
	left, pod := 0, &corev1.Pod{}
	var before []byte
	for n := range 20_000 {
		if n%200 == 0 {
			filler.Fill(pod)
			pod.ManagedFields = nil
		}
		for range 1 + r.IntN(2) {
			changes[r.IntN(len(changes))](pod)
		}
		if len(pod.ManagedFields) > 3 {
			pod.ManagedFields = nil
		}
		whole, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		part := &corev1.Pod{}
		cut := accessPart(whole)
		if err := part.Unmarshal(cut); err != nil {
			t.Fatalf("the part of %v: %v", pod, err)
		}
		if part.Name != pod.Name || part.Namespace != pod.Namespace || part.Spec.NodeName != pod.Spec.NodeName || !reflect.DeepEqual(usesOf(part), usesOf(pod)) {
			t.Fatalf("%v became %v", pod, part)
		}
		if bytes.Equal(cut, before) {
			left++
		}
		before = cut
	}
	if left < 2000 {
		t.Errorf("%d changes left the part as it was", left)
	}
}

// What is not written as Kubernetes writes it is left to who decodes it.
func TestAccessPartOfMalformedPods(t *testing.T) {
	good, err := (&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{good[:len(good)-1], append(good, 0xff), append(good, 2<<3|2, 5), append(good, 2<<3, 5)} {
		if !bytes.Equal(accessPart(bad), bad) {
			t.Errorf("%q is taken for a pod", bad)
		}
	}
	// Two specs are one, as protobuf merges them.
	twice := &corev1.Pod{}
	if err := twice.Unmarshal(accessPart(append(good, good...))); err != nil || twice.Spec.NodeName != "n" {
		t.Errorf("%v %v", twice, err)
	}
}

func BenchmarkAccessPart(b *testing.B) {
	pod := &corev1.Pod{}
	body, err := os.ReadFile("../../../../bench/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(body, pod); err != nil {
		b.Fatal(err)
	}
	whole, err := pod.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("part", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := new(corev1.Pod).Unmarshal(accessPart(whole)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := new(corev1.Pod).Unmarshal(whole); err != nil {
				b.Fatal(err)
			}
		}
	})
}
