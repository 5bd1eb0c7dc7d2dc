package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Poll returns events in bounded pieces: a reader that is held up in the middle
// of one keeps no more than that in memory.
func TestPollIsBounded(t *testing.T) { each(t, testPollIsBounded) }

func testPollIsBounded(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(things)
	value := strings.Repeat("x", 20<<10)
	i := create(t, v, "a", value)
	fresh(t, s)
	w, err := v.Watch(t.Context(), WatchOptions{After: i.Rev})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for range 50 {
		i = update(t, v, i, value)
	}
	// A transaction is never divided.
	var many []kv.Op
	for n := range 2 * pollBytes / len(value) {
		many = append(many, kv.Op{Key: fmt.Sprintf("/registry/things/t%d", n), Value: []byte(value)})
	}
	if _, err := s.db.Commit(t.Context(), kv.Txn{Then: many}); err != nil {
		t.Fatal(err)
	}
	i = update(t, v, i, value)
	fresh(t, s)
	got, last := 0, int64(0)
	for want := 50 + len(many) + 1; got < want; {
		events, err := w.Poll(t.Context())
		if err != nil || len(events) == 0 {
			t.Fatalf("%d events after %d, %v", len(events), got, err)
		}
		bytes, revs := 0, map[int64]bool{}
		for _, e := range events {
			if e.Rev < last {
				t.Errorf("revision %d after %d", e.Rev, last)
			}
			last = e.Rev
			bytes += e.size()
			revs[e.Rev] = true
		}
		if w.Rev() < last || got+len(events) < want && w.Rev() != last {
			t.Errorf("at %d, having delivered up to %d", w.Rev(), last)
		}
		if len(revs) > 1 && bytes > pollBytes+len(many)*(len(value)+eventBytes) {
			t.Errorf("%d bytes at a time", bytes)
		}
		if len(revs) == len(events) && bytes > pollBytes+2*len(value)+eventBytes {
			t.Errorf("%d bytes at a time", bytes)
		}
		got += len(events)
	}
	if events, err := w.Poll(t.Context()); len(events) > 0 || err != nil || w.Rev() < i.Rev {
		t.Errorf("then %d events, %v, at %d", len(events), err, w.Rev())
	}
}

// A watcher that is behind the window gets pieces of the same bound, however
// much etcd sends at a time.
func TestHistoryIsBounded(t *testing.T) { each(t, testHistoryIsBounded) }

func testHistoryIsBounded(t *testing.T, open opener) {
	s := run(t, open(t))
	s.windowBytes = 1
	v := s.View(things)
	value := strings.Repeat("x", 100<<10)
	first := create(t, v, "a", value)
	i := first
	const n = 30 // each with its previous value
	for range n {
		i = update(t, v, i, value)
	}
	fresh(t, s)
	var watchers []*Watcher
	for range 2 {
		w, err := v.Watch(t.Context(), WatchOptions{After: first.Rev})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		watchers = append(watchers, w)
	}
	var firsts []*Event
	for _, w := range watchers {
		for got := 0; got < n; {
			events, err := w.Poll(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(events) == 0 {
				<-w.Ready()
				continue
			}
			if got == 0 {
				firsts = append(firsts, events[0])
			}
			got += len(events)
			bytes := 0
			for _, e := range events {
				bytes += e.size()
			}
			if bytes > historyBytes+2*len(value)+eventBytes {
				t.Errorf("%d bytes at a time", bytes)
			}
		}
	}
	if a, b := firsts[0], firsts[1]; a.Item != b.Item || a.Prev != b.Prev {
		t.Error("what both are fed is held twice")
	}
}

func TestSentByEtcd(t *testing.T) {
	for _, c := range []struct{ n, size, want int64 }{
		{1, 1000, historiesBytes / maxHistories},
		{500, 10_000, 10_000_000},
		{5000, 10_000, 20_000_000},
		{5000, 1_000_000, historiesBytes},
	} {
		if got := sent(c.n, c.size); got != c.want {
			t.Errorf("%d revisions of %d bytes: %d, want %d", c.n, c.size, got, c.want)
		}
	}
}
