package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/etcd/etcdtest"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// watching is a watch that runs.
type watching struct {
	told  chan int64 // revisions of events
	ended chan error
	stop  context.CancelFunc
}

func watch(t testing.TB, db *etcd.DB, w kv.Watch) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	g := &watching{make(chan int64, 100), make(chan error, 1), cancel}
	go func() {
		g.ended <- db.Watch(ctx, w, func(events []kv.Event, _ int64) error {
			for n := range events {
				g.told <- events[n].ModRevision
			}
			return nil
		})
	}()
	t.Cleanup(cancel)
	return g
}

func put(t testing.TB, db *etcd.DB, key string) int64 {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		done, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: key}}})
		if err == nil {
			return done.Rev
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// hears returns once the watch was told of a revision; it must be told of none later before that.
func (g *watching) hears(t testing.TB, want int64) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case rev := <-g.told:
			if rev > want {
				t.Fatalf("told of revision %d, not of %d", rev, want)
			}
			if rev == want {
				return
			}
		case err := <-g.ended:
			t.Fatalf("the watch ended with %v", err)
		case <-late:
			t.Fatalf("not told of revision %d within a minute", want)
		}
	}
}

// TestWatchOutlivesServer has connections cut, and the server restarted: the watch does not end, and misses nothing. It ends while there is no
// server if its reader has gone, and when what it has missed is compacted.
func TestWatchOutlivesServer(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t, false)
	db := s.Dial()
	defer func() { _ = db.Close() }()
	writer := s.Dial()
	defer func() { _ = writer.Close() }()
	g := watch(t, db, kv.Watch{Key: "w/", Prefix: true, From: put(t, writer, "w/first")})
	behind := watch(t, db, kv.Watch{Key: "v/", Prefix: true, From: put(t, writer, "v/first")})
	behind.hears(t, put(t, writer, "v/second"))
	for n := range 5 {
		g.hears(t, put(t, writer, fmt.Sprint("w/", n)))
		if n%2 == 0 {
			s.Cut()
		} else {
			s.Restart()
		}
	}
	rev := put(t, writer, "w/last")
	g.hears(t, rev)
	s.Stop()
	g.stop()
	if err := <-g.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v while there is no server", err)
	}
	s.Start()
	put(t, writer, "elsewhere")
	old := watch(t, db, kv.Watch{Key: "w/", Prefix: true, From: rev})
	old.hears(t, rev)
	if err := writer.Compact(t.Context(), put(t, writer, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	if err := <-old.ended; !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("it ended with %v, what it has missed is compacted", err)
	}
}

// TestWatchIsCheap counts the goroutines of watches of an etcd in this process, while they run and afterwards.
func TestWatchIsCheap(t *testing.T) { // alone: others start goroutines too
	db, err := etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: t.TempDir(), UnsafeNoFsync: true, AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	first := put(t, db, "0/first")
	const watches = 100
	before := runtime.NumGoroutine()
	var all []*watching
	for n := range watches {
		all = append(all, watch(t, db, kv.Watch{Key: fmt.Sprint(n, "/"), Prefix: true, From: first + 1}))
	}
	for n, g := range all {
		g.hears(t, put(t, db, fmt.Sprint(n, "/a")))
	}
	if got := runtime.NumGoroutine() - before; got > 2*watches+10 {
		t.Errorf("%d watches have %d goroutines", watches, got)
	}
	for _, g := range all {
		g.stop()
		<-g.ended
	}
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before+10; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are left of %d watches", runtime.NumGoroutine()-before, watches)
		}
	}
}

// TestCloseBesideSlowReader closes an etcd while a watch has more to tell than it keeps, to a reader that stands still.
func TestCloseBesideSlowReader(t *testing.T) {
	t.Parallel()
	db, err := etcd.OpenEmbedded(t.Context(), etcd.Embedded{Dir: t.TempDir(), UnsafeNoFsync: true, AnyDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	stands, goOn, ended := make(chan bool), make(chan bool), make(chan error, 1)
	var once sync.Once
	go func() {
		ended <- db.Watch(t.Context(), kv.Watch{Key: "w", From: 1}, func([]kv.Event, int64) error {
			once.Do(func() { close(stands); <-goOn })
			return nil
		})
	}()
	put(t, db, "w")
	<-stands
	for range 8 {
		if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "w", Value: make([]byte, 1<<20)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	close(goOn)
	if err := <-ended; err == nil {
		t.Error("a watch of a closed etcd has ended as if it were complete")
	}
}
