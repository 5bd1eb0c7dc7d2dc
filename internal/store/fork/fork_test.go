package fork_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/fork"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
	"github.com/kanzen-io/kanzen/internal/store/storetest"
)

// origin is a store with views of two kinds, whose keys are each their own value.
type origin struct {
	db    store.DB
	store *store.Cluster
	views []*store.View
}

func kinds() []store.Kind {
	out := []store.Kind{}
	for _, prefix := range []string{"p/", "q/sub/"} {
		out = append(out, store.Kind{Prefix: prefix,
			Labels: func([]byte) (labels.Set, error) { return nil, nil }, Fields: func([]byte) (fields.Set, error) { return nil, nil }})
	}
	return out
}

// running returns a store on a log, which runs until the test ends.
func running(t testing.TB, db store.DB) *origin {
	o := &origin{db: db, store: store.NewCluster(db, store.Options{Prefix: "/r/"})}
	for _, k := range kinds() {
		o.views = append(o.views, o.store.View(k))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- o.store.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return o
}

func (o *origin) cut(t testing.TB) *store.Cut {
	t.Helper()
	cut, err := o.store.Cut(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return cut
}

type lasting struct{ *fork.DB }

func (lasting) Close() error { return nil }

// A fork of nothing is a log as any other.
func TestSuite(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Engine {
		db := fork.New(running(t, memory.New(clock.RealClock{})).cut(t), clock.RealClock{})
		t.Cleanup(func() { _ = db.Close() })
		return storetest.Engine{Open: func(testing.TB) storetest.DB { return lasting{db} }}
	})
}

var names = []string{"/r/p/a", "/r/p/a/b", "/r/p/ab", "/r/p/b", "/r/q/sub/a", "/r/q/sub/b", "/r/q/sub/c", "/r/q/other"}

// TestAsStored asks a fork, and a log in which the same keys are stored, the same random questions. What the origin's log does
// meanwhile is not seen.
func TestAsStored(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		source, stored := memory.New(clock.RealClock{}), memory.New(clock.RealClock{})
		o := running(t, source)
		for n := range 12 {
			op := kv.Op{Key: names[r.IntN(len(names)-1)], Value: fmt.Append(nil, n), Delete: r.IntN(4) == 0}
			for _, db := range []store.DB{source, stored} {
				if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{op}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		head, _ := source.Head(t.Context())
		if r.IntN(2) == 0 {
			if _, err := o.views[0].Snapshot(t.Context()); err != nil { // one is loaded already
				t.Fatal(err)
			}
		}
		q := questions{r: r, forked: fork.New(o.cut(t), clock.RealClock{}), stored: stored, head: head, rev: head}
		for range 200 {
			q.ask(t)
			if _, err := source.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: names[r.IntN(len(names))], Delete: r.IntN(2) == 0}}}); err != nil {
				t.Fatal(err)
			}
		}
		q.views(t)
	}
}

type questions struct {
	r         *rand.Rand
	forked    *fork.DB
	stored    store.DB
	head, rev int64
}

func (q *questions) key() string { return names[q.r.IntN(len(names))] }

func (q *questions) ask(t *testing.T) {
	switch q.r.IntN(5) {
	case 0, 1:
		q.commit(t)
	case 4: // what both have forgotten is not asked for any more
		if rev := q.rev - q.r.Int64N(20); q.r.IntN(10) == 0 && rev > q.head {
			q.head = rev
			for _, db := range []store.DB{q.forked, q.stored} {
				if err := db.Compact(t.Context(), rev); err != nil {
					t.Fatal(err)
				}
			}
		}
	case 2:
		ask := kv.Range{Key: q.key(), Limit: int64(q.r.IntN(4)), CountOnly: q.r.IntN(5) == 0}
		switch q.r.IntN(4) {
		case 0:
			ask.End = kv.NoEnd
		case 1:
			ask.End = kv.PrefixEnd(ask.Key)
		case 2:
			if ask.End = q.key(); ask.End <= ask.Key {
				return
			}
		}
		if q.r.IntN(2) == 0 {
			ask.Rev = max(q.head, q.rev-q.r.Int64N(20))
		}
		same(t, ask, storetest.Shown(shown).Ranged(t, q.forked, ask), storetest.Shown(shown).Ranged(t, q.stored, ask))
	case 3:
		w := kv.Watch{Key: q.key(), Prefix: q.r.IntN(2) == 0, From: max(q.head+1, q.rev-q.r.Int64N(20)), Until: q.rev, Prev: q.r.IntN(2) == 0}
		if w.From <= w.Until {
			same(t, w, storetest.Shown(shown).Watched(t, q.forked, w), storetest.Shown(shown).Watched(t, q.stored, w))
		}
	}
}

func (q *questions) commit(t *testing.T) {
	ops := map[string]kv.Op{}
	for range 1 + q.r.IntN(3) {
		o := kv.Op{Key: q.key(), Delete: q.r.IntN(3) == 0}
		if !o.Delete {
			o.Value = fmt.Append(nil, q.r.IntN(100))
		}
		ops[o.Key] = o
	}
	txn := kv.Txn{ElseKeys: q.r.IntN(3) == 0}
	for _, k := range slices.Sorted(maps.Keys(ops)) {
		txn.Then = append(txn.Then, ops[k])
	}
	for range q.r.IntN(3) {
		c := kv.Condition{Key: q.key(), Is: kv.ModRevision}
		if _, err := q.stored.Range(t.Context(), kv.Range{Key: c.Key}, func(k kv.KeyValue) bool { c.N = k.ModRevision; return true }); err != nil {
			t.Fatal(err)
		}
		switch q.r.IntN(6) {
		case 0:
			c.N = 0
		case 1:
			c.Is, c.N = kv.ModRevisionAtMost, max(0, c.N-q.r.Int64N(2))
		}
		txn.If = append(txn.If, c)
		txn.Else = append(txn.Else, c.Key)
	}
	text := func(db store.DB) string {
		done, err := db.Commit(t.Context(), txn)
		if err != nil {
			t.Fatal(err)
		}
		q.rev = done.Rev
		out := fmt.Sprint(done.Held, done.Rev)
		for _, k := range done.Else {
			out += "; " + shown(k)
		}
		return out
	}
	same(t, txn, text(q.forked), text(q.stored))
}

// views compares what stores on both logs hold, also of keys that a view was read singly for.
func (q *questions) views(t *testing.T) {
	a, b := running(t, q.forked), running(t, q.stored)
	for n := range a.views {
		same(t, kinds()[n].Prefix, q.items(t, a.views[n]), q.items(t, b.views[n]))
	}
	q.commit(t)
	for n := range a.views {
		for _, o := range []*origin{a, b} {
			if err := o.store.Fresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		same(t, kinds()[n].Prefix, q.items(t, a.views[n]), q.items(t, b.views[n]))
	}
}

func (q *questions) items(t *testing.T, v *store.View) (out string) {
	s, err := v.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ascend(t.Context(), store.Range{}, func(i *store.Item) bool {
		out += fmt.Sprintf("%s=%s@%d; ", i.Key, i.Value(), i.Rev)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, question any, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%+v\ngot:  %s\nwant: %s", question, got, want)
	}
}

func shown(k *kv.KeyValue) string {
	if k == nil {
		return "none"
	}
	return fmt.Sprintf("%s=%s@%d", k.Key, k.Value, k.ModRevision)
}

// What was before the fork is not in its history.
func TestBefore(t *testing.T) {
	source := memory.New(clock.RealClock{})
	for n := range 5 {
		if _, err := source.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/r/p/a", Value: fmt.Append(nil, n)}}}); err != nil {
			t.Fatal(err)
		}
	}
	db := fork.New(running(t, source).cut(t), clock.RealClock{})
	if err := db.Watch(t.Context(), kv.Watch{Key: "/r/p/a", From: 3}, func([]kv.Event, int64) error { return nil }); !errors.Is(err, kv.ErrCompacted) {
		t.Errorf("watch from before the fork: %v", err)
	}
}

// BenchmarkCut is what a fork of 100,000 objects costs.
func BenchmarkCut(b *testing.B) {
	source := memory.New(clock.RealClock{})
	for n := range 100_000 {
		if _, err := source.Commit(b.Context(), kv.Txn{Then: []kv.Op{{Key: fmt.Sprintf("/r/p/%06d", n), Value: make([]byte, 500)}}}); err != nil {
			b.Fatal(err)
		}
	}
	o := running(b, source)
	o.cut(b)
	b.ReportAllocs()
	for b.Loop() {
		fork.New(o.cut(b), clock.RealClock{})
	}
}

// What was written to a fork is adopted as one, unless something that it is based on has changed: a key that was written, one that it
// relied on, or a mark, which is in no view.
func TestAdopt(t *testing.T) {
	put := func(db store.DB, txn kv.Txn) {
		t.Helper()
		if done, err := db.Commit(t.Context(), txn); err != nil || !done.Held {
			t.Fatal(done, err)
		}
	}
	for what, c := range map[string]struct {
		meanwhile string // is written in the origin
		want      error
	}{"nothing": {"", nil}, "another": {"/r/p/other", nil}, "written": {"/r/p/a", store.ErrMoved}, "deleted": {"/r/p/gone", store.ErrMoved},
		"created": {"/r/q/sub/new", store.ErrMoved}, "relied": {"/r/p/relied", store.ErrMoved}, "mark": {"/r/marks/m", store.ErrMoved}} {
		source := memory.New(clock.RealClock{})
		o := running(t, source)
		for _, key := range []string{"/r/p/a", "/r/p/gone", "/r/p/relied", "/r/marks/m"} {
			put(source, kv.Txn{Then: []kv.Op{{Key: key, Value: []byte("1")}}})
		}
		cut := o.cut(t)
		db := fork.New(cut, clock.RealClock{})
		relied, _ := cut.Get("/r/p/relied")
		put(db, kv.Txn{If: []kv.Condition{{Key: "/r/p/relied", Is: kv.ModRevision, N: relied.ModRevision}, {Key: "/r/marks/m", Is: kv.ModRevisionAtMost, N: cut.Rev}},
			Then: []kv.Op{{Key: "/r/p/a", Value: []byte("2")}, {Key: "/r/p/gone", Delete: true}, {Key: "/r/q/sub/new", Value: []byte("2"), TTL: time.Hour}}})
		put(db, kv.Txn{Then: []kv.Op{{Key: "/r/p/a", Value: []byte("3")}, {Key: "/r/q/sub/passing", Value: []byte("3")}}})
		put(db, kv.Txn{Then: []kv.Op{{Key: "/r/q/sub/passing", Delete: true}}})
		if c.meanwhile != "" {
			put(source, kv.Txn{Then: []kv.Op{{Key: c.meanwhile, Value: []byte("x")}}})
		}
		before, _ := source.Head(t.Context())
		rev, err := o.store.Adopt(t.Context(), db)
		if !errors.Is(err, c.want) {
			t.Fatalf("%s: %v, want %v", what, err, c.want)
		}
		if c.want != nil {
			if now, _ := source.Head(t.Context()); now != before {
				t.Errorf("%s: something was written", what)
			}
			continue
		}
		if rev != before+1 {
			t.Errorf("%s: written at %d, after %d", what, rev, before)
		}
		got := storetest.Shown(shown).Watched(t, source, kv.Watch{Key: "/r/", Prefix: true, From: rev, Until: rev})
		want := fmt.Sprintf("/r/p/a=3@%d deleted false created false\n/r/p/gone=@%d deleted true created false\n/r/q/sub/new=2@%d deleted false created true", rev, rev, rev)
		same(t, what, got, want)
	}
}

// pausing is a clock that calls a func when a timer is made: a commit makes those of its keys once they are written.
type pausing struct {
	clock.RealClock
	made func()
}

func (p pausing) AfterFunc(d time.Duration, f func()) clock.Timer {
	p.made()
	return p.RealClock.AfterFunc(d, f)
}

// Who has seen a write finds it in Written, even while the commit has not returned.
func TestWrittenOnceSeen(t *testing.T) {
	var db *fork.DB
	found := make(chan int, 1)
	db = fork.New(running(t, memory.New(clock.RealClock{})).cut(t), pausing{made: func() {
		if head, err := db.Head(t.Context()); err != nil || head != db.Cut().Rev+1 {
			t.Errorf("the write is not seen: %d, %v", head, err)
		}
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			ops, _ := db.Written()
			found <- len(ops)
		}()
		select {
		case <-asked:
		case <-time.After(50 * time.Millisecond): // it waits for the commit
		}
	}})
	defer db.Close()
	if _, err := db.Commit(t.Context(), kv.Txn{Then: []kv.Op{{Key: "/r/p/a", TTL: time.Hour}}}); err != nil {
		t.Fatal(err)
	}
	if n := <-found; n != 1 {
		t.Errorf("%d keys were written", n)
	}
}
