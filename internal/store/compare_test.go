package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// lossy is a database whose watches lose the events of a key, and whose ranges can fail.
type lossy struct {
	*memory.DB
	loses atomic.Value // string
	fails atomic.Bool
}

func (l *lossy) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if l.fails.Load() {
		return kv.Answer{}, context.DeadlineExceeded
	}
	return l.DB.Range(ctx, r, yield)
}

func (l *lossy) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	return l.DB.Watch(ctx, w, func(events []kv.Event, rev int64) error {
		kept := slices.DeleteFunc(slices.Clone(events), func(e kv.Event) bool { return string(e.Key) == l.loses.Load() })
		return deliver(kept, rev)
	})
}

// TestCompare has a database lose the creation, a change and the deletion of a key. The view is found to differ, and loaded again. While it is the
// same, it is left as it is.
func TestCompare(t *testing.T) {
	clk := testclock.NewFakeClock(time.Now())
	db := &lossy{DB: memory.New(clk)}
	db.loses.Store("")
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	s := New(db, Options{Prefix: "/registry/", Clock: clk, Metrics: metrics, Compare: true})
	t.Cleanup(start(t, s, db))
	kind := things
	kind.Resource = schema.GroupResource{Resource: "things"}
	v := s.View(kind)
	idle := s.View(Kind{Prefix: "others/", Resource: schema.GroupResource{Resource: "others"}})
	for _, key := range []string{"a", "c", "e"} {
		put(t, db, "/registry/things/"+key, "1")
	}
	fresh(t, s)
	if _, err := v.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]float64{}
	compared := func(outcome string) {
		t.Helper()
		outcomes[outcome]++
		counts := func() bool {
			for _, o := range []string{compareSame, compareDiffer, compareFailed} {
				if testutil.ToFloat64(metrics.compared.WithLabelValues("", "things", o)) != outcomes[o] {
					return false
				}
			}
			return true
		}
		for deadline := time.Now().Add(time.Minute); !counts(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no comparison with outcome %s", outcome)
			}
			if clk.HasWaiters() {
				clk.Step(compareEvery / 16)
			}
		}
	}
	has := func(want ...string) {
		t.Helper()
		snap, err := v.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := snap.Ascend(t.Context(), Range{}, func(i *Item) bool { got = append(got, i.Key+string(i.Value())); return true }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the view has %v, want %v", got, want)
		}
	}
	compared(compareSame)
	for _, key := range []string{"b", "f"} { // in the middle, and at the end
		db.loses.Store("/registry/things/" + key)
		put(t, db, "/registry/things/"+key, "1")
		fresh(t, s)
		compared(compareDiffer)
		if _, err := v.Snapshot(t.Context()); err != nil { // loads it again
			t.Fatal(err)
		}
	}
	has("a1", "b1", "c1", "e1", "f1")
	put(t, db, "/registry/things/f", "2")
	fresh(t, s)
	has("a1", "b1", "c1", "e1", "f1")
	compared(compareDiffer)
	has("a1", "b1", "c1", "e1", "f2")
	if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/registry/things/f", Delete: true}}}); err != nil {
		t.Fatal(err)
	}
	fresh(t, s)
	has("a1", "b1", "c1", "e1", "f2")
	compared(compareDiffer)
	has("a1", "b1", "c1", "e1")
	compared(compareSame)
	db.fails.Store(true)
	compared(compareFailed)
	db.fails.Store(false)
	has("a1", "b1", "c1", "e1")
	if _, loaded := idle.Len(); loaded {
		t.Error("a view was loaded for the comparison")
	}
}

// BenchmarkCompare compares a view of 100,000 objects of 1 KB with the embedded etcd.
func BenchmarkCompare(b *testing.B) {
	db := openEmbedded(b, b.TempDir())
	value := bytes.Repeat([]byte("x"), 1000)
	for n := 0; n < 100_000; n += kv.MaxOps {
		var t kv.Txn
		for m := n; m < n+kv.MaxOps; m++ {
			t.Then = append(t.Then, kv.Op{Key: fmt.Sprintf("/registry/things/%06d", m), Value: value})
		}
		if _, err := db.Commit(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
	s := run(b, db)
	v := s.View(things)
	if _, err := v.Snapshot(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		v.compare(b.Context())
	}
	if v.counts.loads.Load() != 1 {
		b.Error("it was loaded again")
	}
}
