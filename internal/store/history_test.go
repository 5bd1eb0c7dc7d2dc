package store

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// heldDB holds up who reads its history.
type heldDB struct {
	closingDB
	read    atomic.Int64 // how often that has begun
	release chan struct{}
}

func (h *heldDB) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	if w.Until > 0 {
		h.read.Add(1)
		select {
		case <-h.release:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.closingDB.Watch(ctx, w, deliver)
}

// Watchers that begin in the past at the same time read it once, each from where it is, and one that goes away takes it from nobody.
func TestHistoryIsShared(t *testing.T) {
	db := &heldDB{closingDB: memory.New(clock.RealClock{}), release: make(chan struct{})}
	s := run(t, db)
	s.windowBytes = 1
	v := s.View(things)
	var revs []int64
	for n := range 50 {
		revs = append(revs, create(t, v, fmt.Sprint(n), "x").Rev)
	}
	fresh(t, s)
	if _, err := v.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	var watchers []*Watcher
	var begins []int
	for n := range 31 {
		begin := n % 3
		w, err := v.Watch(t.Context(), WatchOptions{After: revs[begin]})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		watchers, begins = append(watchers, w), append(begins, begin)
		awaitReaders(t, v, n+1)
	}
	watchers[0].Close() // for whom the reading was begun
	awaitReaders(t, v, 30)
	close(db.release)
	for n, w := range watchers[1:] {
		defer w.Close()
		got := 0
		for w.Rev() < revs[49] {
			events, err := w.Poll(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got += len(events)
			runtime.Gosched()
		}
		if want := 49 - begins[n+1]; got != want {
			t.Errorf("a watcher got %d events, want %d", got, want)
		}
	}
	if n := db.read.Load(); n != 1 {
		t.Errorf("the history was read %d times", n)
	}
}

// Who reads what is long ago, again and again, does not keep others from what is newer.
func TestHistoryOfOthers(t *testing.T) {
	s := run(t, memory.New(clock.RealClock{}))
	s.windowBytes = 1
	v := s.View(things)
	var revs []int64
	for n := range 10 {
		revs = append(revs, create(t, v, fmt.Sprint(n), "x").Rev)
	}
	fresh(t, s)
	old := &pastReading{after: revs[0], readers: 1, cancel: func() {}, done: make(chan struct{})}
	for _, old.stretch = range []stretch{{rev: revs[1]}, {err: ErrCompacted}} {
		v.readings.all = []*pastReading{old}
		if old.stretch.err == nil {
			close(old.done)
		}
		if got := v.past(t.Context(), WatchOptions{}, revs[5]); got.err != nil || len(got.events) != 4 || got.rev < revs[9] {
			t.Errorf("behind one that has come to %d, %v: %+v", old.stretch.rev, old.stretch.err, got)
		}
	}
}

// awaitReaders waits until so many wait for one reading of a view's history.
func awaitReaders(t *testing.T, v *View, want int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		v.readings.mu.Lock()
		n := 0
		for _, r := range v.readings.all {
			n += r.readers
		}
		v.readings.mu.Unlock()
		if n == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d wait, want %d", n, want)
		}
	}
}
