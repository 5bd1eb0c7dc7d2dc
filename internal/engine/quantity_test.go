package engine

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
)

// Exponents that would take hours are refused in quantities, in all encodings,
// and nothing else is refused.
func TestQuantities(t *testing.T) {
	for text, refused := range map[string]bool{
		`"1e999999999"`: true, `1E+9999`: true, `"-.5e-100000"`: true, `"111111111111111111111.e99999"`: true, `"1\u0065999999999"`: true,
		`"1e-999999999","cpu":"1"`: true, `"1e999"`: false, `"1e3","memory":"5Ei"`: false, `"1"`: false,
	} {
		body := `{"metadata":{"labels":{"commit":"12e4567"},"annotations":{"1e99999":"1e99999"}},"spec":{"containers":[{"env":[{"name":"a","value":"1e999999999"}],"resources":{"limits":{"cpu":` + text + `}}}]}}`
		if _, err := unmarshalJSON([]byte(body), &corev1.Pod{}, false); (err != nil) != refused {
			t.Errorf("cpu of %s: %v", text, err)
		}
	}
	for digits, long := range map[int]bool{4000: false, 20_000: true, 1 << 20: true} {
		body := []byte(`{"spec":{"overhead":{"cpu":"` + strings.Repeat("1", digits) + `"}}}`)
		if _, err := unmarshalJSON(body, &corev1.Pod{}, true); (err != nil) != long {
			t.Errorf("%d digits: %v", digits, err)
		}
	}
	// The hash of a commit looks like a number, but a label is not a quantity.
	named := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"commit": "12e4567", "12e4567": "x"}},
		Spec: corev1.PodSpec{Overhead: corev1.ResourceList{"cpu": apiresource.MustParse("1")}}}
	plain, err := named.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := boundQuantities(plain, &corev1.Pod{}, true); err != nil {
		t.Error(err)
	}
	limits := corev1.ResourceList{"cpu": apiresource.MustParse("1e999999999")}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: limits}}}}}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if boundQuantities(raw, &corev1.Pod{}, true) == nil {
		t.Error("a pod in protobuf")
	}
	body := []byte(`{"data":{"number":"1e999999999"},"spec":{"resources":{"limits":{"cpu":"1e999999999"}}}}`)
	if _, err := unmarshalJSON(body, &corev1.ConfigMap{}, true); err != nil {
		t.Errorf("a text that is no quantity: %v", err)
	}
	if _, err := unmarshalJSON(body, &corev1.Pod{}, true); err == nil {
		t.Error("a pod")
	}
	if err := strategicMerge(t.Context(), &corev1.Pod{}, []byte(`{"spec":{"overhead":{"cpu":"1\u0065999999999"}}}`), &corev1.Pod{}, ""); err == nil {
		t.Error("a patch of a pod")
	}
}
