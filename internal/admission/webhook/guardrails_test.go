package webhook

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	testingclock "k8s.io/utils/clock/testing"
)

// TestBreaker checks when a webhook that fails is still called.
func TestBreaker(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Unix(1000, 0))
	g := NewGuardrails(false, 30*time.Second, clk, prometheus.NewRegistry())
	h := &hook{id: "c/h/0", configuration: "c", name: "h"}
	call := func(ok bool) bool {
		if !g.breaker.lets(h.id) {
			return false
		}
		g.breaker.saw(h, ok)
		return true
	}
	for n, step := range []struct {
		after  time.Duration
		ok     bool
		called bool
	}{
		{0, false, true}, {0, false, true}, {0, false, true}, // it has not failed for long
		{29 * time.Second, false, true},
		{2 * time.Second, false, false}, // open
		{9 * time.Second, false, true},  // a probe, ten seconds after the last call
		{time.Second, false, false},
		{9 * time.Second, true, true}, // a probe brings it back
		{0, false, true}, {0, false, true}, {0, false, true},
		{time.Hour, true, true}, // a single failure long ago, and a success
		{0, true, true},
	} {
		clk.Step(step.after)
		if got := call(step.ok); got != step.called {
			t.Fatalf("step %d: called %t, want %t", n, got, step.called)
		}
		if open := testutil.CollectAndCount(g.open); open > 0 != (n >= 5 && n < 7) {
			t.Errorf("step %d: %d open in the metric", n, open)
		}
	}
}
