package recorder

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
	"github.com/kanzen-io/kanzen/internal/request"
)

// ofSeries returns the values of a series; nil: there is none.
func ofSeries(r *Recorder, name string) []float32 {
	for _, s := range r.TimeSeries() {
		if s.Name == name {
			return s.Values
		}
	}
	return nil
}

func newMeasuring(t *testing.T, revision *int64) (*measuring, *testingclock.FakeClock) {
	r, clk := newTest(64 << 20)
	m := &measuring{Recorder: r, parts: Parts{
		Datastores: func(context.Context) []*v1alpha1.Datastore {
			return []*v1alpha1.Datastore{{Revision: *revision, Latency: metav1.Duration{Duration: 2 * time.Millisecond}, Bytes: 1 << 20}}
		},
		PriorityLevels: func() []*v1alpha1.PriorityLevel {
			return []*v1alpha1.PriorityLevel{{SeatsInUse: 3}, {SeatsInUse: 4, Waiting: 5}}
		},
	}}
	serve(t, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/a", "alice", 200, nil) // before it begins
	m.begin(t.Context())
	return m, clk
}

func TestSeries(t *testing.T) {
	revision := int64(100)
	m, clk := newMeasuring(t, &revision)
	step := func() {
		clk.Step(SeriesStep)
		p, families := m.measure(t.Context(), clk.Now())
		m.series.add(clk.Now(), &p, families)
	}
	for n := range 20 {
		code := 200
		switch {
		case n < 5:
			code = 500
		case n < 15:
			code = 403
		}
		serve(t, m.Recorder, clk, "PUT", "/api/v1/namespaces/n/configmaps/a", "alice", code, func(ctx context.Context) {
			clk.Step(10 * time.Millisecond)
			request.Spend(ctx, request.LayerStorage, 4*time.Millisecond)
		})
	}
	clk.Step(-200 * time.Millisecond)
	revision += 50
	step()
	step()
	for name, want := range map[string][]float32{
		"requests.update": {4, 0}, "requests.get": {0, 0}, "answers.failed": {1, 0}, "answers.refused": {2, 0}, "latency.p50": {0.01, 0}, "latency.p99": {0.01, 0},
		"writes.revisions": {10, 0}, "store.latency": {0.002, 0.002}, "size.database": {1 << 20, 1 << 20}, "seats.inUse": {7, 7}, "seats.waiting": {5, 5}, "watches.open": {0, 0},
		"stages.etcd": {0.004, 0}, "stages.queue": {0, 0}, "stages.rest": {0.006, 0},
	} {
		got := ofSeries(m.Recorder, name)
		if len(got) != 2 || math.Abs(float64(got[0]-want[0])) > 0.001*float64(max(1, want[0])) || math.Abs(float64(got[1]-want[1])) > 0.001*float64(max(1, want[1])) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if v := ofSeries(m.Recorder, "memory.process"); len(v) != 2 || v[0] < 1<<20 {
		t.Errorf("memory: %v", v)
	}
}

// TestSeriesGaps leaves out steps: the process did not run. Ticks that come early or late, and a clock that is set back, lose nothing.
func TestSeriesGaps(t *testing.T) {
	var s series
	one, at := point{reqGet: 1}, time.Unix(1_000_000_000, 0)
	add := func(after time.Duration) {
		at = at.Add(after)
		s.add(at, &one, map[string]float64{levelSeats + ".a": 1})
	}
	add(0)
	for _, after := range []time.Duration{SeriesStep, SeriesStep + 3*time.Millisecond, SeriesStep - 6*time.Millisecond, SeriesStep + 2*time.Second, SeriesStep - 2*time.Second} {
		add(after)
	}
	if v := s.values[reqGet]; len(v) != 6 || slices.Contains(v, 0) {
		t.Errorf("with ticks that are not punctual: %v", v)
	}
	add(3 * SeriesStep)
	if v := s.values[reqGet]; len(v) != 9 || v[5] != 1 || v[6] != 0 || v[7] != 0 || v[8] != 1 {
		t.Errorf("with a gap: %v", v)
	}
	add(-time.Hour)
	if v := s.values[reqGet]; len(v) != 10 || v[9] != 1 || !s.end.Equal(at) {
		t.Errorf("after the clock was set back: %v", v)
	}
	add(24 * time.Hour)
	if v := s.values[reqGet]; len(v) != seriesValues || v[0] != 0 || v[seriesValues-1] != 1 {
		t.Errorf("after a long gap there are %d values", len(v))
	}
	for range 2 * seriesValues {
		add(SeriesStep)
	}
	if v := s.values[reqGet]; len(v) != seriesValues || v[0] != 1 || cap(v) > 4*seriesValues {
		t.Errorf("after two hours there are %d values in %d", len(v), cap(v))
	}
	if v := s.named[levelSeats+".a"]; !slices.Equal(v, s.values[reqGet]) {
		t.Errorf("a series of a family has %d values, and others", len(v))
	}
}

// TestSeriesOfADeadStore: a database that does not answer is slow, not fast.
func TestSeriesOfADeadStore(t *testing.T) {
	revision := int64(1)
	m, clk := newMeasuring(t, &revision)
	m.parts.Datastores = func(context.Context) []*v1alpha1.Datastore {
		clk.Step(3 * time.Second)
		return []*v1alpha1.Datastore{{Error: "no answer"}}
	}
	if p, _ := m.measure(t.Context(), clk.Now().Add(SeriesStep)); p[storeLatency] != 3 || p[storeWrites] != 0 {
		t.Errorf("latency %v, writes %v", p[storeLatency], p[storeWrites])
	}
}

func TestRounded(t *testing.T) {
	for of, want := range map[float64]float32{0: 0, 1: 1, 0.0123456: 0.01235, 123456: 123500, math.Inf(1): 0, math.NaN(): 0} {
		if got := rounded(of); got != want {
			t.Errorf("%v is %v, want %v", of, got, want)
		}
	}
}

// TestKeepSeries follows the clock until its context ends.
func TestKeepSeries(t *testing.T) {
	revision := int64(1)
	m, clk := newMeasuring(t, &revision)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.KeepSeries(ctx, m.parts) }()
	for len(m.TimeSeries()) == 0 {
		if clk.HasWaiters() {
			clk.Step(SeriesStep)
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	if s := m.TimeSeries()[0]; !s.End.Time.Equal(clk.Now()) {
		t.Errorf("the newest values are of %v, at %v", s.End, clk.Now())
	}
}

func BenchmarkMeasure(b *testing.B) {
	var revision int64
	r, clk := newTest(64 << 20)
	m := &measuring{Recorder: r, parts: Parts{Datastores: func(context.Context) []*v1alpha1.Datastore { return nil }, PriorityLevels: func() []*v1alpha1.PriorityLevel { return nil }}}
	for range 25_000 { // of five seconds
		serve(b, r, clk, "PUT", "/api/v1/namespaces/n/configmaps/a", "alice", 200, nil)
	}
	b.ReportAllocs()
	for b.Loop() {
		revision++
		m.cursor = Cursor{}
		m.measure(b.Context(), clk.Now().Add(SeriesStep))
	}
}
