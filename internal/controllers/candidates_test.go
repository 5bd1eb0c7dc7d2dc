package controllers

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func candidate(name, binary, emulation string, age time.Duration) *coordinationv1beta1.LeaseCandidate {
	return &coordinationv1beta1.LeaseCandidate{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-age))},
		Spec: coordinationv1beta1.LeaseCandidateSpec{
			LeaseName: "l", BinaryVersion: binary, EmulationVersion: emulation, Strategy: coordinationv1.OldestEmulationVersion, RenewTime: ago(age),
		},
	}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: noon.Add(-d)} }

// TestCandidates has the oldest emulation version win, then the oldest binary, then the candidate that is there for longest.
func TestCandidates(t *testing.T) {
	a, b := candidate("a", "1.37.0", "1.36.0", time.Second), candidate("b", "1.36.0", "1.36.0", time.Second)
	c, d := candidate("c", "1.37.0", "1.35", 0), candidate("d", "1.37.0", "1.35", time.Minute)
	none := candidate("none", "x", "1.1.0", 0)
	type list []*coordinationv1beta1.LeaseCandidate
	for _, test := range []struct {
		of   list
		best string
	}{{list{a, b}, "b"}, {list{a, b, c}, "c"}, {list{c, d, a}, "d"}, {list{none, a}, "a"}} {
		if got := oldest(test.of); got == nil || got.Name != test.best {
			t.Errorf("%v is the best, want %s", got, test.best)
		}
	}
	if got := oldest(list{none}); got != nil {
		t.Errorf("%s, without a valid version, is the best", got.Name)
	}
	b.Spec.Strategy = "example.com/other"
	if s, err := strategyOf(list{b, a}); err != nil || s != coordinationv1.OldestEmulationVersion {
		t.Errorf("strategy %s, %v, want that of the newest binary", s, err)
	}
	c.Spec.Strategy = "example.com/other"
	if _, err := strategyOf(list{a, c}); err == nil {
		t.Error("candidates of the same version may have different strategies")
	}
}

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		pinged, renewed *metav1.MicroTime
		want            answer
	}{
		"just renewed":       {nil, ago(time.Second), given},
		"never asked":        {nil, ago(time.Minute), unasked},
		"asked":              {ago(time.Second), ago(time.Minute), awaited},
		"too late":           {ago(10 * time.Second), ago(time.Minute), missing},
		"asked and answered": {ago(2 * time.Second), ago(time.Second), given},
		"asked long ago":     {ago(time.Hour), ago(time.Minute), unasked},
	} {
		c := candidate("c", "1.0.0", "1.0.0", 0)
		c.Spec.PingTime, c.Spec.RenewTime = test.pinged, test.renewed
		if got := answerOf(c, noon); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestElectionNeeded(t *testing.T) {
	c := candidate("c", "1.0.0", "1.0.0", time.Second)
	lease := func(holder string, age time.Duration) *coordinationv1.Lease {
		seconds := int32(5)
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: ago(age), LeaseDurationSeconds: &seconds}}
	}
	old := candidate("c", "1.0.0", "1.0.0", 20*time.Minute)
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		c     *coordinationv1beta1.LeaseCandidate
		want  bool
	}{
		"none":        {nil, c, true},
		"the best":    {lease("c", time.Second), c, false},
		"another":     {lease("d", time.Second), c, true},
		"nobody":      {lease("", time.Second), c, true},
		"expired":     {lease("c", time.Minute), c, true},
		"long silent": {lease("c", time.Second), old, true},
	} {
		got, err := electionNeeded(test.lease, []*coordinationv1beta1.LeaseCandidate{test.c}, noon)
		if err != nil || got != test.want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}
