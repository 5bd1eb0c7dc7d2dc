package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/memory"
)

var errLocked = errors.New("the key is not there")

// locked is a Transformer that can read only while it is open.
type locked struct{ open atomic.Bool }

func (*locked) ToStorage(_ context.Context, _ string, b []byte) ([]byte, error) { return b, nil }

func (l *locked) FromStorage(_ context.Context, _ string, b []byte) ([]byte, bool, error) {
	if !l.open.Load() {
		return nil, false, errLocked
	}
	return b, false, nil
}

// losses is a Tap that counts how often events are missing.
type losses struct{ n atomic.Int64 }

func (*losses) Put(string, int64, []byte) {}
func (*losses) Deleted(string, int64)     {}
func (l *losses) Lost()                   { l.n.Add(1) }

// TestHeal has values come back that could not be decrypted, for readers and for those who follow.
func TestHeal(t *testing.T) {
	l := &locked{}
	s := run(t, memory.New(clock.RealClock{}))
	v := s.View(Kind{Prefix: "things/", Transformer: l})
	create(t, v, "ns/a", "1")
	fresh(t, s)
	if i, err := v.Get(t.Context(), "ns/a"); err != nil || !errors.Is(i.Err, errLocked) || i.Value() != nil {
		t.Fatalf("%+v, %v", i, err)
	}
	changes := make(chan Change[*string], 8)
	go indexOf(v).Follow(t.Context(), func(c Change[*string]) { changes <- c }, nil)
	if c := <-changes; c.Key != "ns/a" || c.Now != nil && *c.Now == "1" {
		t.Fatalf("%+v", c)
	}
	s.heal(t.Context())
	if i, err := v.Get(t.Context(), "ns/a"); err != nil || !errors.Is(i.Err, errLocked) {
		t.Fatalf("healed by nothing: %+v, %v", i, err)
	}
	lost := &losses{}
	defer s.Tap(lost)()
	l.open.Store(true)
	s.heal(t.Context())
	if n := lost.n.Load(); n != 1 {
		t.Errorf("taps were told %d times that something is missing", n)
	}
	if i, err := v.Get(t.Context(), "ns/a"); err != nil || i.Err != nil || string(i.Value()) != "1" {
		t.Fatalf("not healed: %+v, %v", i, err)
	}
	for c := range changes {
		if c.Now != nil && *c.Now == "1" {
			break
		}
	}
	if len(v.broken) != 0 {
		t.Errorf("still broken: %v", v.broken)
	}
}

// TestRecheck has values that keys were taken away from: they are not served from memory, and are there again with their keys. Whoever
// watches is told of what is written meanwhile.
func TestRecheck(t *testing.T) {
	l := &locked{}
	l.open.Store(true)
	s := run(t, memory.New(clock.RealClock{}))
	v := s.View(Kind{Prefix: "things/", Transformer: l})
	create(t, v, "ns/a", "1")
	read := func() error {
		i, err := v.Get(t.Context(), "ns/a")
		if err != nil {
			t.Fatal(err)
		}
		return i.Err
	}
	first, err := v.Get(t.Context(), "ns/a")
	if err != nil {
		t.Fatal(err)
	}
	w, err := v.Watch(t.Context(), WatchOptions{After: first.Rev})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	loads := v.counts.loads.Load()
	s.Recheck(t.Context())
	if read() != nil || v.counts.loads.Load() != loads {
		t.Error("the view was loaded again, and nothing was wrong with it")
	}
	l.open.Store(false)
	if err := read(); err != nil {
		t.Fatalf("who has noticed? %v", err)
	}
	s.Recheck(t.Context())
	if err := read(); !errors.Is(err, errLocked) {
		t.Errorf("the value is served without its key: %v", err)
	}
	l.open.Store(true)
	create(t, v, "ns/b", "2")
	if got := take(t, w, 1); got[0] != "+ns/b=2" {
		t.Errorf("the watch gets %v", got)
	}
	s.heal(t.Context())
	if err := read(); err != nil {
		t.Errorf("its key is back, and it is not: %v", err)
	}
}

// slowly is a Transformer whose first reading waits until it may go on with what it has found.
type slowly struct {
	*locked
	first            sync.Once
	reading, release chan struct{}
}

func (s *slowly) FromStorage(ctx context.Context, key string, b []byte) ([]byte, bool, error) {
	value, stale, err := s.locked.FromStorage(ctx, key, b)
	s.first.Do(func() {
		close(s.reading)
		<-s.release
	})
	return value, stale, err
}

// TestRecheckWhileLoading takes the keys away while a view is loaded: what was read with them is not served.
func TestRecheckWhileLoading(t *testing.T) {
	l := &slowly{locked: &locked{}, reading: make(chan struct{}), release: make(chan struct{})}
	l.open.Store(true)
	s := run(t, memory.New(clock.RealClock{}))
	create(t, s.View(Kind{Prefix: "things/"}), "ns/a", "1")
	s.Forget(s.View(Kind{Prefix: "things/"}))
	v := s.View(Kind{Prefix: "things/", Transformer: l})
	done := make(chan error)
	go func() {
		_, err := v.Changed(t.Context()) // it loads the view
		done <- err
	}()
	<-l.reading
	l.open.Store(false)
	s.Recheck(t.Context())
	close(l.release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if i, err := v.Get(t.Context(), "ns/a"); err != nil || !errors.Is(i.Err, errLocked) {
		t.Errorf("it is served with the former key: %+v, %v", i, err)
	}
}

// onMessage is a log's handler that calls a func for one message.
type onMessage struct {
	slog.Handler
	message string
	call    func()
}

func (h onMessage) Enabled(context.Context, slog.Level) bool { return true }

func (h onMessage) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.call()
	}
	return nil
}

// TestHealWhileFollowed has a follower look at its view, because of another event, between the moment when a value is found
// to be healed and the moment when the view is loaded again.
func TestHealWhileFollowed(t *testing.T) {
	l := &locked{}
	changes := make(chan Change[*string], 64)
	var v *View
	meanwhile := func() {
		create(t, v, "ns/b", "2")
		for c := range changes {
			if c.Key == "ns/b" {
				return
			}
		}
	}
	db := memory.New(clock.RealClock{})
	s := New(db, Options{Prefix: "/registry/", Log: slog.New(onMessage{slog.DiscardHandler, "values can be decrypted that could not be before", meanwhile})})
	t.Cleanup(start(t, s, db))
	v = s.View(Kind{Prefix: "things/", Transformer: l})
	create(t, v, "ns/a", "1")
	fresh(t, s)
	go indexOf(v).Follow(t.Context(), func(c Change[*string]) { changes <- c }, nil)
	if c := <-changes; c.Key != "ns/a" || c.Now != nil && *c.Now == "1" {
		t.Fatalf("%+v", c)
	}
	l.open.Store(true)
	s.heal(t.Context())
	deadline := time.After(time.Minute)
	for {
		select {
		case c := <-changes:
			if c.Key == "ns/a" && c.Now != nil && *c.Now == "1" {
				return
			}
		case <-deadline:
			t.Fatal("the follower is not told of the healed value")
		}
	}
}

// TestHealUnviewed tells taps that something is missing also where no view has the values that could not be decrypted: those
// of custom resources that nobody has asked for. What is gone by then is not missing.
func TestHealUnviewed(t *testing.T) {
	l := &locked{}
	s := run(t, memory.New(clock.RealClock{}))
	s.transformer = func(string) Transformer { return l }
	lost := &losses{}
	defer s.Tap(lost)()
	fresh(t, s)
	heal := func(want int64) {
		t.Helper()
		before := lost.n.Load()
		s.heal(t.Context())
		if n := lost.n.Load() - before; n != want {
			t.Errorf("taps were told %d times that something is missing, want %d", n, want)
		}
	}
	scan := func() {
		if err := s.Scan(t.Context(), "", func(string, int64, []byte) bool { return true }); err != nil {
			t.Error(err)
		}
	}
	unknown := s.View(Kind{Prefix: "other/", Transformer: l})
	b := create(t, unknown, "b", "1") // the log tells it
	s.Forget(unknown)
	fresh(t, s)
	heal(0)
	l.open.Store(true)
	heal(1)
	heal(0)
	l.open.Store(false)
	scan() // a scan finds it
	l.open.Store(true)
	heal(1)
	scan()
	heal(0)
	l.open.Store(false)
	scan()
	if _, err := unknown.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	fresh(t, s)
	l.open.Store(true)
	heal(0)
}

// TestUnreadableIsThere tells a value that cannot be decrypted from none: who takes an owner for gone deletes its
// dependents.
func TestUnreadableIsThere(t *testing.T) {
	l := &locked{}
	s := run(t, memory.New(clock.RealClock{}))
	s.transformer = func(key string) Transformer {
		if key != "other/b" {
			t.Errorf("asked for %s", key)
		}
		return l
	}
	create(t, s.View(Kind{Prefix: "things/", Transformer: l}), "a", "1")
	unknown := s.View(Kind{Prefix: "other/", Transformer: l})
	create(t, unknown, "b", "1")
	s.Forget(unknown) // as a custom resource that nobody has asked for
	for _, key := range []string{"things/a", "other/b"} {
		if _, _, err := s.Read(t.Context(), key); !errors.Is(err, errLocked) {
			t.Errorf("%s: %v", key, err)
		}
	}
	scanned := 0
	scan := func() {
		if err := s.Scan(t.Context(), "", func(string, int64, []byte) bool { scanned++; return true }); err != nil {
			t.Error(err)
		}
	}
	if scan(); scanned != 0 {
		t.Errorf("scanned %d", scanned)
	}
	l.open.Store(true)
	if scan(); scanned != 2 {
		t.Errorf("scanned %d", scanned)
	}
	if _, _, err := s.Read(t.Context(), "things/none"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
