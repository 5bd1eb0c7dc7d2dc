package tolerations

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestTolerations(t *testing.T) {
	ten, twenty := int64(10), int64(20)
	any := corev1.Toleration{Operator: corev1.TolerationOpExists}
	exists := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists}
	equal := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpEqual, Value: "v", Effect: corev1.TaintEffectNoSchedule}
	short := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &ten}
	long := corev1.Toleration{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &twenty}
	for _, c := range []struct {
		name    string
		wide, t corev1.Toleration
		want    bool
	}{
		{"itself", equal, equal, true},
		{"everything", any, equal, true},
		{"any value and effect", exists, equal, true},
		{"one value", equal, exists, false},
		{"longer", long, short, true},
		{"shorter", short, long, false},
		{"other key", exists, corev1.Toleration{Key: "l", Operator: corev1.TolerationOpExists}, false},
	} {
		if got := covers(&c.wide, &c.t); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
	if got := Merge([]corev1.Toleration{equal, short}, []corev1.Toleration{exists, exists}); len(got) != 1 || got[0] != exists {
		t.Errorf("merged to %v", got)
	}
	if !Within([]corev1.Toleration{equal}, nil) || Within([]corev1.Toleration{exists}, []corev1.Toleration{equal}) {
		t.Error("Within")
	}
}
