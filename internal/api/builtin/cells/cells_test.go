package cells

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSince(t *testing.T) {
	for _, c := range []struct {
		t    metav1.Time
		want string
	}{
		{metav1.Time{}, "<unknown>"},
		{metav1.NewTime(time.Now().Add(-5*time.Minute - 10*time.Second)), "5m10s"},
		{metav1.NewTime(time.Now().Add(-50 * time.Hour)), "2d2h"},
	} {
		if got := Since(c.t); got != c.want {
			t.Errorf("Since(%v) = %q, want %q", c.t, got, c.want)
		}
		if got := SinceMicro(metav1.NewMicroTime(c.t.Time)); got != c.want {
			t.Errorf("SinceMicro(%v) = %q, want %q", c.t, got, c.want)
		}
	}
}

func TestFirst(t *testing.T) {
	for want, texts := range map[string][]string{
		"":                    nil,
		"a,b,c":               {"a", "b", "c"},
		"a,b,c + 2 more...":   {"a", "b", "c", "d", "e"},
		"one,,x + 1 more...":  {"one", "", "x", "y"},
		"only this one, here": {"only this one, here"},
	} {
		if got := First(3, texts, ","); got != want {
			t.Errorf("First(3, %q) = %q, want %q", texts, got, want)
		}
	}
}

func TestContainers(t *testing.T) {
	names, images := Containers([]corev1.Container{{Name: "a", Image: "x:1"}, {Name: "b", Image: "y"}})
	if names != "a,b" || images != "x:1,y" {
		t.Errorf("got %q and %q", names, images)
	}
}
