package engine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
)

// Exponents that would take hours are refused where there are quantities, in
// all encodings, and nothing else is.
func TestQuantities(t *testing.T) {
	for text, large := range map[string]bool{
		`{"cpu":"1e999999999"}`: true, `{"cpu":1E+9999}`: true, `{"cpu": "-.5e-100000"}`: true, `["111111111111111111111.e99999"]`: true,
		`{"cpu":"1e999"}`: false, `{"cpu":"1e3","memory":"5Ei"}`: false, `{"image":"a@sha256:12e3456789"}`: false, `{"name":"a-1e99999"}`: false,
		`{"uid":"12e34567-0000"}`: false, `{"a":"1e99999x"}`: false, `1e`: false, ``: false, `e99999`: false,
	} {
		if found := largeExponent([]byte(text)); (found != "") != large {
			t.Errorf("%s: found %q", text, found)
		}
	}
	for digits, long := range map[int]bool{4000: false, 20_000: true, 1 << 20: true} {
		body := []byte(`{"spec":{"overhead":{"cpu":"` + strings.Repeat("1", digits) + `"}}}`)
		if _, err := unmarshalJSON(body, &corev1.Pod{}, true); (err != nil) != long {
			t.Errorf("%d digits: %v", digits, err)
		}
	}
	limits := corev1.ResourceList{"cpu": apiresource.MustParse("1e999999999")}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: limits}}}}}
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if boundQuantities(raw, &corev1.Pod{}) == nil {
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
