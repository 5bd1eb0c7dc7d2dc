package podtolerationrestriction

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestTolerations(t *testing.T) {
	const config = `{default: [{key: d, operator: Exists}], whitelist: [{key: d, operator: Exists}, {key: e, operator: Exists}]}`
	exists := func(keys ...string) (out []corev1.Toleration) {
		for _, k := range keys {
			out = append(out, corev1.Toleration{Key: k, Operator: corev1.TolerationOpExists})
		}
		return out
	}
	for _, c := range []struct {
		name        string
		annotations map[string]string
		spec        corev1.PodSpec
		want        string
		keys        string
	}{
		{"cluster default", nil, corev1.PodSpec{}, "", "d"},
		{"namespace default", map[string]string{defaultAnnotation: `[{"key":"e","operator":"Exists"}]`}, corev1.PodSpec{Tolerations: exists("d")}, "", "d e"},
		{"none", map[string]string{defaultAnnotation: ""}, corev1.PodSpec{}, "", ""},
		{"not allowed in the cluster", nil, corev1.PodSpec{Tolerations: exists("x")}, "cluster whitelist", ""},
		{"not allowed in the namespace", map[string]string{allowedAnnotation: `[{"key":"e","operator":"Exists"}]`}, corev1.PodSpec{}, "namespace whitelist", ""},
		{"not best effort", map[string]string{allowedAnnotation: ""}, corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}}, "", "d " + corev1.TaintNodeMemoryPressure},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(at.NewObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: c.annotations}}), []byte(config))
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: c.spec}
			err = at.Run(p, at.Create(admission.Pods, pod))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			var keys []string
			for _, toleration := range pod.Spec.Tolerations {
				keys = append(keys, toleration.Key)
			}
			if got := strings.Join(keys, " "); err == nil && got != c.keys {
				t.Errorf("got %q", got)
			}
		})
	}
}
