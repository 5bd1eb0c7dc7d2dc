package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/store/etcd/etcdtest"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/store/pebble"
)

// open starts a store on an embedded etcd, and stops both with the test.
func open(t testing.TB) *Store {
	t.Helper()
	return run(t, openEmbedded(t, t.TempDir()))
}

// opener opens an empty log.
type opener func(t testing.TB) closingDB

// openers are all the logs that a Store can use. Its guarantees do not depend
// on the log.
var openers = map[string]opener{
	"embedded": func(t testing.TB) closingDB { return openEmbedded(t, t.TempDir()) },
	"external": func(t testing.TB) closingDB { return etcdtest.Start(t, false).Dial() },
	"memory":   func(testing.TB) closingDB { return memory.New(clock.RealClock{}) },
	"pebble":   openPebble,
}

// each runs a test on the embedded etcd and in memory.
func each(t *testing.T, test func(t *testing.T, open opener)) {
	for _, name := range []string{"embedded", "memory"} {
		t.Run(name, func(t *testing.T) { test(t, openers[name]) })
	}
}

func openEmbedded(t testing.TB, dir string) closingDB {
	t.Helper()
	db, err := etcd.OpenEmbedded(context.Background(), etcd.Embedded{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func openPebble(t testing.TB) closingDB {
	t.Helper()
	db, err := pebble.Open(pebble.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// closingDB is a DB that a test closes.
type closingDB interface {
	DB
	Close() error
}

// put puts a value under a key of etcd, and returns its revision.
func put(t testing.TB, db DB, key, value string) int64 {
	t.Helper()
	done, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: key, Value: []byte(value)}}})
	if err != nil {
		t.Fatal(err)
	}
	return done.Rev
}

// run starts a store on db, and stops both with the test.
func run(t testing.TB, db closingDB) *Store {
	t.Helper()
	s := New(db, Options{Prefix: "/registry/"})
	t.Cleanup(start(t, s, db))
	return s
}

// start runs s; stop ends it and closes its log.
func start(t testing.TB, s *Store, db closingDB) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	return func() {
		t.Helper()
		began := time.Now()
		cancel()
		<-done
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("stopping took %v", d)
		}
	}
}

var things = Kind{Prefix: "things/", Labels: func(v []byte) (labels.Set, error) {
	return labels.Set{"v": string(v)}, nil
}}

// nodes have the value of their trigger field before a bar.
var nodes = Kind{Prefix: "things/", Trigger: "node", Fields: func(v []byte) (fields.Set, error) {
	node, _, _ := strings.Cut(string(v), "|")
	return fields.Set{"node": node}, nil
}}

func create(t testing.TB, v *View, key, value string) *Item {
	t.Helper()
	i, err := v.Create(t.Context(), key, Write{Value: []byte(value)})
	if err != nil {
		t.Fatalf("create %s: %v", key, err)
	}
	return i
}

func update(t testing.TB, v *View, i *Item, value string) *Item {
	t.Helper()
	i, err := v.Update(t.Context(), i, Write{Value: []byte(value)})
	if err != nil {
		t.Fatalf("update %s: %v", i.Key, err)
	}
	return i
}

func remove(t testing.TB, v *View, i *Item) *Item {
	t.Helper()
	i, err := v.Delete(t.Context(), i)
	if err != nil {
		t.Fatalf("delete: %v", err)
	}
	return i
}

func fresh(t testing.TB, s interface {
	Fresh(ctx context.Context) error
}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Fresh(ctx); err != nil {
		t.Fatal(err)
	}
}

// text lists a snapshot as "key=value ...".
func text(s *Snapshot) string {
	out, err := contents(s)
	if err != nil {
		out += err.Error()
	}
	return out
}

func contents(s *Snapshot) (out string, err error) {
	err = s.Ascend(context.Background(), Range{}, func(i *Item) bool {
		out += fmt.Sprintf("%s=%s ", i.Key, i.Value())
		return true
	})
	return out, err
}

// length is the number of items of a snapshot.
func length(t testing.TB, s *Snapshot) int64 {
	t.Helper()
	n, err := s.Count(t.Context(), Range{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (e *Event) text() string {
	switch {
	case e.Prev == nil:
		return fmt.Sprintf("+%s=%s", e.Item.Key, e.Item.Value())
	case e.Item == nil:
		return fmt.Sprintf("-%s=%s", e.Prev.Key, e.Prev.Value())
	}
	return fmt.Sprintf("%s=%s>%s", e.Item.Key, e.Prev.Value(), e.Item.Value())
}

// take reads n events off a watcher.
func take(t testing.TB, w *Watcher, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out []string
	for len(out) < n {
		events, err := w.Poll(ctx)
		if err != nil {
			t.Fatalf("after %v: %v", out, err)
		}
		for _, e := range events {
			out = append(out, e.text())
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-w.Ready():
		case <-ctx.Done():
			t.Fatalf("got %v, then nothing", out)
		}
	}
	return out
}

func TestReadsAndWrites(t *testing.T) { each(t, testReadsAndWrites) }

func testReadsAndWrites(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(things)
	a := create(t, v, "ns/a", "1")
	create(t, v, "ns/b", "1")
	if _, err := v.Create(t.Context(), "ns/a", Write{Value: []byte("2")}); !errors.Is(err, ErrExists) {
		t.Errorf("second create: %v", err)
	}
	fresh(t, s)
	if i, err := v.Get(t.Context(), "ns/a"); err != nil || i.Rev != a.Rev {
		t.Errorf("get: %v, %v; want revision %d", i, err, a.Rev)
	}
	a2 := update(t, v, a, "2")
	var c *ConflictError
	if _, err := v.Update(t.Context(), a, Write{Value: []byte("3")}); !errors.As(err, &c) || c.Current.Rev != a2.Rev {
		t.Errorf("update of an old item: %v", err)
	}
	if _, err := v.Delete(t.Context(), a); !errors.As(err, &c) {
		t.Errorf("delete of an old item: %v", err)
	}
	remove(t, v, a2)
	if _, err := v.Update(t.Context(), a2, Write{Value: []byte("3")}); !errors.As(err, &c) || c.Current != nil {
		t.Errorf("update of a deleted item: %v", err)
	}
	fresh(t, s)
	if _, err := v.Get(t.Context(), "ns/a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("get of a deleted item: %v", err)
	}
	snap, err := v.Snapshot(t.Context())
	if err != nil || text(snap) != "ns/b=1 " {
		t.Errorf("snapshot: %q, %v", text(snap), err)
	}
}

func TestSnapshotAt(t *testing.T) { each(t, testSnapshotAt) }

func testSnapshotAt(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(things)
	before := create(t, v, "before", "0")
	fresh(t, s)
	if _, err := v.Snapshot(t.Context()); err != nil { // loads the view here
		t.Fatal(err)
	}
	a := create(t, v, "a", "1")
	b := create(t, v, "b", "1")
	a2 := update(t, v, a, "2")
	gone := remove(t, v, b)
	fresh(t, s)
	for _, c := range []struct {
		rev  int64
		want string
	}{
		{before.Rev - 1, ""}, // older than the window: read from etcd
		{before.Rev, "before=0 "},
		{a.Rev, "a=1 before=0 "},
		{b.Rev, "a=1 b=1 before=0 "},
		{a2.Rev, "a=2 b=1 before=0 "},
		{gone.Rev, "a=2 before=0 "},
	} {
		snap, err := v.SnapshotAt(t.Context(), c.rev)
		if err != nil || text(snap) != c.want || snap.Rev != c.rev {
			t.Errorf("at %d: %v, %v; want %q", c.rev, snap, err, c.want)
		}
	}
	if _, err := v.SnapshotAt(t.Context(), gone.Rev+100); !errors.Is(err, ErrFuture) {
		t.Errorf("in the future: %v", err)
	}
	if err := s.db.Compact(t.Context(), a.Rev); err != nil {
		t.Fatal(err)
	}
	compacted, err := v.SnapshotAt(t.Context(), before.Rev-1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := compacted.Get(t.Context(), "a"); !errors.Is(err, ErrCompacted) {
		t.Errorf("get of what is compacted: %v", err)
	}
	if _, err := contents(compacted); !errors.Is(err, ErrCompacted) {
		t.Errorf("list of what is compacted: %v", err)
	}
	if _, err := compacted.Count(t.Context(), Range{}); !errors.Is(err, ErrCompacted) {
		t.Errorf("count of what is compacted: %v", err)
	}
}

func TestWatch(t *testing.T) { each(t, testWatch) }

func testWatch(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(things)
	first := create(t, v, "ns/a", "1")
	a := update(t, v, first, "2")
	all, err := v.Watch(t.Context(), WatchOptions{After: first.Rev - 1}) // before the view was loaded
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	ns, err := v.Watch(t.Context(), WatchOptions{After: first.Rev, Prefix: "ns/"})
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	one, err := v.Watch(t.Context(), WatchOptions{After: a.Rev, Prefix: "ns/ab", Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	remove(t, v, a)
	create(t, v, "other/x", "1")
	create(t, v, "ns/abc", "1")
	create(t, v, "ns/ab", "1")
	for _, c := range []struct {
		w    *Watcher
		want []string
	}{
		{all, []string{"+ns/a=1", "ns/a=1>2", "-ns/a=2", "+other/x=1", "+ns/abc=1", "+ns/ab=1"}},
		{ns, []string{"ns/a=1>2", "-ns/a=2", "+ns/abc=1", "+ns/ab=1"}},
		{one, []string{"+ns/ab=1"}},
	} {
		if got := take(t, c.w, len(c.want)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}

func TestWatchCompacted(t *testing.T) { each(t, testWatchCompacted) }

func testWatchCompacted(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(things)
	a := create(t, v, "a", "1")
	b := update(t, v, a, "2")
	if err := s.db.Compact(t.Context(), b.Rev); err != nil {
		t.Fatal(err)
	}
	w, err := v.Watch(t.Context(), WatchOptions{After: a.Rev - 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for {
		events, err := w.Poll(t.Context())
		if errors.Is(err, ErrCompacted) {
			return
		}
		if err != nil || len(events) > 0 {
			t.Fatalf("got %v, %v; want ErrCompacted", events, err)
		}
		<-w.Ready()
	}
}

func TestEventsExpire(t *testing.T) {
	t.Parallel()
	each(t, testEventsExpire)
}

func testEventsExpire(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(things)
	if _, err := v.Create(t.Context(), "a", Write{Value: []byte("1"), TTL: time.Second}); err != nil {
		t.Fatal(err)
	}
	w, err := v.Watch(t.Context(), WatchOptions{After: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if got := take(t, w, 2); got[1] != "-a=1" {
		t.Errorf("got %v", got)
	}
}

func TestWatcherOutOfWindowGoesOnFromHistory(t *testing.T) {
	each(t, testWatcherOutOfWindowGoesOnFromHistory)
}

func testWatcherOutOfWindowGoesOnFromHistory(t *testing.T, open opener) {
	s := run(t, open(t))
	s.windowBytes = 10 << 10
	v := s.View(things)
	a := create(t, v, "a", "0")
	w, err := v.Watch(t.Context(), WatchOptions{After: a.Rev})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	big := make([]byte, 500)
	var want []string
	for n := range 60 {
		copy(big, fmt.Sprintf("%03d", n))
		a = update(t, v, a, string(big))
		want = append(want, fmt.Sprintf("%03d", n))
	}
	fresh(t, s)
	var got []string
	for _, e := range take(t, w, 60) {
		got = append(got, e[len(e)-len(big):][:3])
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v", got)
	}
}

func TestCompactionRounds(t *testing.T) { each(t, testCompactionRounds) }

func testCompactionRounds(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(things)
	a := create(t, v, "a", "0")
	compacting := &compactor{db: s.db, clock: s.clock, log: s.log, compacted: s.endPast}
	ver, rev, err := compacting.once(t.Context(), 0, 0)
	if err != nil || ver != 1 {
		t.Fatal(ver, rev, err)
	}
	update(t, v, a, "1")
	// A second server that has not seen the first round only joins it.
	if ver2, _, err := compacting.once(t.Context(), 0, 0); err != nil || ver2 != 1 {
		t.Fatal(ver2, err)
	}
	if ver, _, err = compacting.once(t.Context(), ver, rev); err != nil || ver != 2 {
		t.Fatal(ver, err)
	}
	if err := (&Snapshot{view: v, Rev: rev - 1}).ascendPast(t.Context(), Range{}, nil); !errors.Is(err, ErrCompacted) {
		t.Errorf("read before the compaction: %v", err)
	}
}
