package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/etcd/etcdtest"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// WaitFor works also for revisions of keys outside of the prefix, of which the
// log has no events: etcd reports the progress of its watch.
func TestWaitForRevisionsOutsideThePrefix(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			s := run(t, open(t))
			fresh(t, s)
			w, err := s.View(things).Watch(t.Context(), WatchOptions{After: s.Revision()})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			for range 3 {
				rev := put(t, s.db, compactKey, "1")
				fresh(t, s)
				if events, err := w.Poll(t.Context()); len(events) > 0 || err != nil || w.Rev() < rev {
					t.Errorf("watch: %v, %v, at %d; want it at %d", events, err, w.Rev(), rev)
				}
			}
		})
	}
}

// startLoad begins to load a view.
func (v *View) startLoad() *load {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.loadLocked()
}

// A view that was loaded before the log is followed is not loaded again, and misses nothing.
func TestLoadedBeforeFollowed(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			put(t, db, "/registry/things/a", "1")
			s := New(db, Options{Prefix: "/registry/"})
			v := s.View(things)
			l := v.startLoad()
			<-l.done
			if l.err != nil {
				t.Fatal(l.err)
			}
			put(t, db, "/registry/things/b", "2")
			t.Cleanup(start(t, s, db))
			fresh(t, s)
			v.mu.Lock()
			defer v.mu.Unlock()
			for _, key := range []string{"a", "b"} {
				if _, there := v.items.Get(key); !there {
					t.Errorf("%s is missing", key)
				}
			}
			if n := v.counts.loads.Load(); n != 1 {
				t.Errorf("%d loads", n)
			}
		})
	}
}

// silent is a log that says nothing until who asks it gives up.
type silent struct {
	DB
	asked chan struct{}
}

func (s *silent) Head(ctx context.Context) (int64, error) {
	s.asked <- struct{}{}
	<-ctx.Done()
	return 0, ctx.Err()
}

// A store stops while its log does not answer, also if a view was loaded before it is followed.
func TestStopsWhileTheLogIsSilent(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			db := &silent{DB: open(t), asked: make(chan struct{}, 10)}
			s := New(db, Options{Prefix: "/registry/"})
			v := s.View(things)
			l := v.startLoad()
			<-db.asked
			ctx, stop := context.WithCancel(t.Context())
			stop()
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
			if <-l.done; !errors.Is(l.err, context.Canceled) {
				t.Error(l.err)
			}
		})
	}
}

// Reading a history without events ends too.
func TestEmptyHistoryEnds(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			s := run(t, open(t))
			v := s.View(things)
			first := create(t, v, "a", "1")
			last := update(t, v, first, "2")
			var watchers []*Watcher
			for range 5 { // in parallel: none delays another's end
				w, err := v.Watch(t.Context(), WatchOptions{After: first.Rev - 1, Prefix: "nobody/"})
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				watchers = append(watchers, w)
			}
			for _, w := range watchers {
				for w.Rev() < last.Rev {
					if events, err := w.Poll(t.Context()); len(events) > 0 || err != nil {
						t.Fatal(events, err)
					}
					if w.Rev() < last.Rev {
						<-w.Ready()
					}
				}
			}
		})
	}
}

// A view that was loaded before the log began must not miss the events in
// between.
func TestViewLoadedBeforeRun(t *testing.T) { each(t, testViewLoadedBeforeRun) }

func testViewLoadedBeforeRun(t *testing.T, open opener) {
	db := open(t)
	s := New(db, Options{Prefix: "/registry/"})
	v := s.View(things)
	if _, err := v.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	create(t, v, "a", "1")
	t.Cleanup(start(t, s, db))
	fresh(t, s)
	if _, err := v.Get(t.Context(), "a"); err != nil {
		t.Errorf("get: %v", err)
	}
}

// History may be ahead of the log: the window must not deliver the same events
// again.
func TestHistoryAheadOfLog(t *testing.T) { each(t, testHistoryAheadOfLog) }

func testHistoryAheadOfLog(t *testing.T, open opener) {
	db := open(t)
	s := New(db, Options{Prefix: "/registry/"}) // not run: the log stands still
	t.Cleanup(func() { s.tasks.stop(); _ = db.Close() })
	v := s.View(things)
	a := create(t, v, "a", "1")
	if _, err := v.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	a = update(t, v, a, "2")
	w, err := v.Watch(t.Context(), WatchOptions{After: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if got, want := take(t, w, 2), "[+a=1 a=1>2]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
	feed(v, a.Rev, "a", "2")
	feed(v, a.Rev+1, "a", "3")
	if got, want := take(t, w, 1), "[a=2>3]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A log that broke off resumes where it was: no event is lost, none comes
// twice.
func TestLogGoesOn(t *testing.T) { each(t, testLogGoesOn) }

func testLogGoesOn(t *testing.T, open opener) {
	db := open(t)
	s := New(db, Options{Prefix: "/registry/"})
	t.Cleanup(func() { s.tasks.stop(); _ = db.Close() })
	v := s.View(things)
	follow := func(next, until int64) int64 {
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan int64)
		go func() {
			n, _ := s.runWatch(ctx, next)
			seen <- n
		}()
		if err := s.WaitFor(t.Context(), until); err != nil {
			t.Fatal(err)
		}
		cancel()
		return <-seen
	}
	next := follow(0, 1)
	if _, err := v.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := create(t, v, "a", "0")
	for n := range 3 {
		next = follow(next, a.Rev)
		if next != a.Rev+1 || len(v.window.events) != n+1 {
			t.Errorf("after revision %d: %d events, next is %d", a.Rev, len(v.window.events), next)
		}
		a = update(t, v, a, fmt.Sprint(n))
	}
}

// A log that has fallen behind a compaction begins anew. Watchers that have
// received everything go on, and the others end.
func TestLogCompacted(t *testing.T) { each(t, testLogCompacted) }

func testLogCompacted(t *testing.T, open opener) {
	db := open(t)
	s := New(db, Options{Prefix: "/registry/"})
	v := s.View(things)
	a := create(t, v, "a", "1")
	b := update(t, v, a, "2")
	if err := db.Compact(t.Context(), b.Rev); err != nil {
		t.Fatal(err)
	}
	late, err := v.Watch(t.Context(), WatchOptions{After: a.Rev - 1})
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	good, err := v.Watch(t.Context(), WatchOptions{After: b.Rev})
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	if _, err := s.runWatch(t.Context(), a.Rev); !errors.Is(err, ErrCompacted) {
		t.Fatalf("following from a compacted revision: %v", err)
	}
	t.Cleanup(start(t, s, db))
	update(t, v, b, "3")
	if got := take(t, good, 1); got[0] != "a=2>3" {
		t.Errorf("got %v", got)
	}
	for {
		if _, err := late.Poll(t.Context()); errors.Is(err, ErrCompacted) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		<-late.Ready()
	}
}

// decoding is a Transformer that calls a func when a value is decoded.
type decoding func()

func (decoding) ToStorage(_ context.Context, _ string, b []byte) ([]byte, error) { return b, nil }

func (f decoding) FromStorage(_ context.Context, _ string, b []byte) ([]byte, bool, error) {
	f()
	return b, false, nil
}

// Several changes at one revision are one step for a reader, however they are
// spread over views, and however small the window is.
func TestTransactionIsWhole(t *testing.T) { each(t, testTransactionIsWhole) }

func testTransactionIsWhole(t *testing.T, open opener) {
	s := run(t, open(t))
	s.windowBytes = 100
	v := s.View(things)
	other := s.View(Kind{Prefix: "other/", Transformer: decoding(func() {
		if snap, err := v.Snapshot(t.Context()); err != nil || length(t, snap)%3 != 0 {
			t.Errorf("in the middle of it: %s, %v", text(snap), err)
		}
	})})
	for _, view := range []*View{v, other} {
		if _, err := view.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w, err := v.Watch(t.Context(), WatchOptions{After: s.Revision()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var puts []kv.Op
	for _, k := range []string{"things/b", "other/x", "things/a", "other/y", "things/c"} {
		puts = append(puts, kv.Op{Key: "/registry/" + k, Value: []byte(k)})
	}
	if _, err := s.db.Commit(t.Context(), kv.Txn{Then: puts}); err != nil {
		t.Fatal(err)
	}
	fresh(t, s)
	snap, err := v.Snapshot(t.Context())
	if err != nil || text(snap) != "a=things/a b=things/b c=things/c " {
		t.Errorf("snapshot: %s, %v", text(snap), err)
	}
	var events []*Event
	for len(events) == 0 {
		<-w.Ready()
		if events, err = w.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(events) != 3 {
		t.Errorf("got %d events in one step, want 3", len(events))
	}
}

// Watchers of a trigger value are woken by objects that get the value and that
// lose it, and by no others.
func TestTrigger(t *testing.T) { each(t, testTrigger) }

func testTrigger(t *testing.T, open opener) {
	s := run(t, open(t))
	fresh(t, s) // else there is no revision yet to wait for below
	v := s.View(nodes)
	w, err := v.Watch(t.Context(), WatchOptions{Triggers: []string{"n1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for w.Rev() < s.Revision() || len(w.wake) > 0 { // the history before the view's load
		<-w.Ready()
		if _, err := w.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a := create(t, v, "a", "n2|1")
	fresh(t, s)
	if len(w.wake) > 0 {
		t.Error("woken by an object of another value")
	}
	a = update(t, v, a, "n1|2")
	update(t, v, a, "n2|3")
	if got, want := take(t, w, 2), "[a=n2|1>n1|2 a=n1|2>n2|3]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A watcher of one object is woken by that object, and not by others of its namespace.
func TestWatchOfOneObject(t *testing.T) { each(t, testWatchOfOneObject) }

func testWatchOfOneObject(t *testing.T, open opener) {
	s := run(t, open(t))
	fresh(t, s) // else there is no revision yet to wait for below
	v := s.View(things)
	for _, key := range []string{"a", "ns/a"} {
		w, err := v.Watch(t.Context(), WatchOptions{After: s.Revision(), Prefix: key, Exact: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for w.Rev() < s.Revision() || len(w.wake) > 0 {
			<-w.Ready()
			if _, err := w.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, other := range []string{"b", "aa", "ns/b", "ns/aa", "a/a"} {
			create(t, v, other+"-"+strings.ReplaceAll(key, "/", "-"), "1")
		}
		fresh(t, s)
		if len(w.wake) > 0 {
			t.Errorf("the watcher of %s is woken by other objects", key)
		}
		create(t, v, key, "1")
		if got := take(t, w, 1); len(got) != 1 || !strings.Contains(fmt.Sprint(got), key+"=") {
			t.Errorf("the watcher of %s got %v", key, got)
		}
	}
}

// Dropping a view ends its watchers, after they have received the earlier
// events.
func TestForget(t *testing.T) { each(t, testForget) }

func testForget(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(things)
	fresh(t, s) // a log that begins later resets the view and its window
	snap, err := v.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := v.Watch(t.Context(), WatchOptions{After: snap.Rev})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	create(t, v, "a", "1")
	fresh(t, s)
	quiet, err := v.Watch(t.Context(), WatchOptions{After: s.Revision()})
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.Close()
	s.Forget(v)
	if got := take(t, w, 1); got[0] != "+a=1" {
		t.Errorf("got %v", got)
	}
	for _, w := range []*Watcher{w, quiet} {
		<-w.Ready()
		if _, err := w.Poll(t.Context()); !errors.Is(err, ErrForgotten) {
			t.Errorf("watch: %v, want ErrForgotten", err)
		}
	}
	if _, err := v.Snapshot(t.Context()); !errors.Is(err, ErrForgotten) {
		t.Errorf("snapshot: %v, want ErrForgotten", err)
	}
	indexOf(v).Follow(t.Context(), nil, nil) // returns
	if i, err := s.View(things).Get(t.Context(), "a"); err != nil || string(i.Value()) != "1" {
		t.Errorf("get from the next view: %v, %v", i, err)
	}
}

// Stopping does not wait for watchers, nor for readers of history or of an etcd
// that cannot be reached. Afterwards no goroutine of the store runs.
func TestStop(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("watching", func(t *testing.T) {
		db := openEmbedded(t, t.TempDir())
		s := New(db, Options{Prefix: "/registry/"})
		s.windowBytes = 100
		stop := start(t, s, db)
		v := s.View(things)
		a := create(t, v, "a", "0")
		first := a.Rev
		for n := range 20 {
			a = update(t, v, a, fmt.Sprint(n))
		}
		fresh(t, s)
		for range 20 {
			w, err := v.Watch(context.Background(), WatchOptions{After: first})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Poll(context.Background()); err != nil { // begins history
				t.Fatal(err)
			}
		}
		stop()
		if err := s.WaitFor(t.Context(), a.Rev+100); err == nil {
			t.Error("waiting for a store that has stopped")
		}
		if _, err := s.View(Kind{Prefix: "others/"}).Snapshot(t.Context()); err == nil {
			t.Error("reading from a store that has stopped")
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		x := etcdtest.Start(t, false)
		db := x.Dial()
		s := New(db, Options{Prefix: "/registry/"})
		stop := start(t, s, db)
		fresh(t, s)
		x.Stop()
		defer x.Start()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := s.Fresh(ctx); err == nil {
			t.Error("fresh without etcd")
		}
		if _, err := s.View(things).Snapshot(ctx); err == nil {
			t.Error("a snapshot without etcd")
		}
		stop()
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("it took %v", d)
		}
	})
	// A goroutine may still be counted for a moment after it was waited for.
	eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 })
}

// A follower that panics begins anew with all objects; the process and the
// other followers go on.
func TestFollowerPanics(t *testing.T) { each(t, testFollowerPanics) }

func testFollowerPanics(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(things)
	create(t, v, "a", "1")
	told := make(chan string)
	panics := 1
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		indexOf(v).Follow(ctx, func(c Change[*string]) {
			told <- c.Key
			if c.Key == "b" && panics > 0 {
				panics--
				panic("boom")
			}
		}, nil)
	}()
	if got := <-told; got != "a" {
		t.Fatalf("told of %s", got)
	}
	create(t, v, "b", "1")
	for n, want := range []string{"b", "a", "b"} { // the last two after the panic
		if got := <-told; got != want {
			t.Fatalf("%d: told of %s, want %s", n, got, want)
		}
	}
	cancel()
	<-done
}
