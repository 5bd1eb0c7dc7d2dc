package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// remembering is a Tap that remembers.
type remembering struct {
	mu   sync.Mutex
	puts []string
}

func (r *remembering) Put(key string, _ int64, value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.puts = append(r.puts, key+"="+string(value))
}
func (*remembering) Deleted(string, int64) {}
func (*remembering) Lost()                 {}

// TestParts has resources in two etcds, whose revisions are far apart.
func TestParts(t *testing.T) {
	near, far := memory.New(clock.RealClock{}), memory.NewAt(clock.RealClock{}, 1_000_000)
	defer near.Close()
	defer far.Close()
	s := NewCluster(near, Options{Prefix: "/registry/"}, Part{DB: far, Prefixes: []string{"events/", "services/endpoints/"}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	defer running.Wait()
	defer cancel()
	tap := &remembering{}
	fresh(t, s)
	defer s.Tap(tap)()

	pods, events, endpoints, services := s.View(Kind{Prefix: "pods/"}), s.View(Kind{Prefix: "events/"}), s.View(Kind{Prefix: "services/endpoints/"}), s.View(Kind{Prefix: "services/specs/"})
	put(t, near, "/registry/events/x/stale", "of the time before")
	p, e := create(t, pods, "x/p", "1"), create(t, events, "x/e", "1")
	create(t, endpoints, "x/n", "1")
	create(t, services, "x/s", "1")
	if p.Rev > 1000 || e.Rev < 1_000_000 {
		t.Errorf("revisions %d and %d", p.Rev, e.Rev)
	}
	fresh(t, s)
	for v, key := range map[*View]string{pods: "x/p", events: "x/e", endpoints: "x/n", services: "x/s"} {
		if err := v.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i, err := v.Get(t.Context(), key); err != nil || string(i.Value()) != "1" {
			t.Errorf("%s: %v, %v", key, i, err)
		}
		snap, err := v.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if far := snap.Rev >= 1_000_000; far != (v == events || v == endpoints) {
			t.Errorf("a snapshot of %s is at %d", key, snap.Rev)
		}
	}
	want := []string{"events/x/e=1", "pods/x/p=1", "services/endpoints/x/n=1", "services/specs/x/s=1"}
	slices.Sort(tap.puts)
	if !slices.Equal(tap.puts, want) {
		t.Errorf("a tap was told %v, want %v", tap.puts, want)
	}
	var scanned []string
	scan := func(prefix string) []string {
		scanned = nil
		if err := s.Scan(t.Context(), prefix, func(key string, _ int64, value []byte) bool {
			scanned = append(scanned, key+"="+string(value))
			return true
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(scanned)
		return scanned
	}
	if got := scan(""); !slices.Equal(got, want) {
		t.Errorf("scanned %v, want %v", got, want)
	}
	if got := scan("events/"); !slices.Equal(got, want[:1]) {
		t.Errorf("scanned %v", got)
	}
	if value, at, err := s.Read(t.Context(), "events/x/e"); string(value) != "1" || at < 1_000_000 || err != nil {
		t.Errorf("%q at %d, %v", value, at, err)
	}
	if _, _, err := s.Read(t.Context(), "events/x/stale"); !errors.Is(err, ErrNotFound) {
		t.Errorf("what lies in the wrong etcd is read: %v", err)
	}

	// A mark holds back writes in its own etcd.
	mark, err := s.Mark(t.Context(), "pods/x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Create(t.Context(), "x/late", Write{}, Guard{"pods/x", mark - 1}); !errors.Is(err, ErrVoid) {
		t.Errorf("a void guard: %v", err)
	}
	if _, err := events.Create(t.Context(), "x/late", Write{}, Guard{"pods/x", mark - 1}); err != nil {
		t.Errorf("a guard of another etcd: %v", err)
	}
	op := []Op{{View: pods, Key: "x/one", Write: Write{Value: []byte("1")}}, {View: events, Key: "x/one", Write: Write{Value: []byte("1")}}}
	if _, err := Commit(t.Context(), op); err == nil {
		t.Error("objects of two logs were written as one")
	}
	if all := s.All(); len(all) != 2 || all[0] != pods.Store() || all[1] != events.Store() {
		t.Errorf("%v", all)
	}
}

// TestPartsCompact compacts every etcd by its own revisions.
func TestPartsCompact(t *testing.T) {
	clk := testclock.NewFakeClock(time.Now())
	near, far := memory.New(clk), memory.NewAt(clk, 1_000_000)
	s := NewCluster(near, Options{Prefix: "/registry/", Clock: clk}, Part{DB: far, Prefixes: []string{"events/"}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.RunCompaction(ctx, time.Minute) }()
	write := func(db DB) int64 {
		c, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/registry/a", Value: []byte("1")}}})
		if err != nil {
			t.Fatal(err)
		}
		return c.Rev
	}
	first := map[DB]int64{near: write(near), far: write(far)}
	for db := range first {
		write(db)
	}
	compacted := func(db DB) bool {
		_, err := db.Range(t.Context(), kv.Range{Key: "/registry/a", Rev: first[db]}, func(kv.KeyValue) bool { return true })
		return errors.Is(err, ErrCompacted)
	}
	for deadline := time.Now().Add(time.Minute); !compacted(near) || !compacted(far); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the main etcd is compacted: %v, the other: %v", compacted(near), compacted(far))
		}
		if clk.HasWaiters() {
			clk.Step(time.Minute)
		}
	}
	if n, err := far.Head(t.Context()); err != nil || n < 1_000_000 {
		t.Errorf("%d, %v", n, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
