package podnodeselector

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestSelectors(t *testing.T) {
	const config = `podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: "d=1", ns: "a=b,d=1,x=y"}`
	type set = map[string]string
	for _, c := range []struct {
		name       string
		annotation set
		pod        set
		want       string
		result     set
	}{
		{"cluster default", nil, nil, "", set{"d": "1"}},
		{"annotated", set{annotation: "a=b"}, set{"x": "y"}, "", set{"a": "b", "x": "y"}},
		{"empty annotation", set{annotation: ""}, nil, "", set{}},
		{"conflict", set{annotation: "a=b"}, set{"a": "c"}, "conflicts with its namespace", nil},
		{"not allowed", set{annotation: "a=b"}, set{"z": "z"}, "whitelist", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(at.NewObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: c.annotation}}), []byte(config))
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: corev1.PodSpec{NodeSelector: c.pod}}
			at.Check(t, at.Run(p, at.Create(admission.Pods, pod)), c.want)
			if c.want == "" && !maps.Equal(pod.Spec.NodeSelector, c.result) {
				t.Errorf("got %v", pod.Spec.NodeSelector)
			}
		})
	}
}
