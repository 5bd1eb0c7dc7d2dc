package podtopologylabels

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

func TestLabels(t *testing.T) {
	zone := map[string]string{corev1.LabelTopologyZone: "z"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: "z", corev1.LabelHostname: "h"}}}
	pod := func(node string) *corev1.Pod { return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}} }
	bind := func(kind, name string) *corev1.Binding {
		return &corev1.Binding{Target: corev1.ObjectReference{Kind: kind, Name: name}}
	}
	for _, c := range []struct {
		name        string
		subresource string
		obj         admission.Object
		want        map[string]string
	}{
		{"pod on a node", "", pod("n"), zone},
		{"pod nowhere", "", pod(""), nil},
		{"no such node", "", pod("x"), nil},
		{"binding", "binding", bind("Node", "n"), zone},
		{"binding to something else", "binding", bind("Other", "n"), nil},
	} {
		a := at.Create(admission.Pods, c.obj)
		a.Subresource = c.subresource
		at.Check(t, at.Run(New(at.NewObjects(node), features.Set{}), a), "")
		if got := c.obj.GetLabels(); !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestGateOff(t *testing.T) {
	off, err := features.Parse([]string{features.PodTopologyLabelsAdmission + "=false"}, features.Now())
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: "z"}}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	if p := New(at.NewObjects(node), off); p.Mutator != nil {
		at.Check(t, at.Run(p, at.Create(admission.Pods, pod)), "")
	}
	if len(pod.Labels) > 0 {
		t.Errorf("got %v", pod.Labels)
	}
}
