package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// countingDB counts what is read.
type countingDB struct {
	DB
	reads, keys, largest atomic.Int64 // largest: the largest answer, in bytes
}

func (c *countingDB) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	c.reads.Add(1)
	bytes := int64(0)
	enough := false
	answer, err := c.DB.Range(ctx, r, func(k kv.KeyValue) bool {
		c.keys.Add(1)
		bytes += int64(len(k.Value))
		enough = enough || !yield(k)
		return true
	})
	c.largest.Store(max(c.largest.Load(), bytes))
	return answer, err
}

// took returns what was read since the last call.
func (c *countingDB) took() string {
	return fmt.Sprintf("%d keys in %d reads", c.keys.Swap(0), c.reads.Swap(0))
}

// old makes a view whose window does not reach back to the revision returned,
// at which there are n objects of size bytes in each of the namespaces a and b.
// All but those whose number is even have changed since.
func old(t *testing.T, open opener, n, size int) (*View, *countingDB, int64) {
	t.Helper()
	s := run(t, open(t))
	s.windowBytes = 1
	v := s.View(things)
	var items []*Item
	for _, ns := range []string{"a", "b"} {
		for k := range n {
			items = append(items, create(t, v, fmt.Sprintf("%s/%03d", ns, k), fmt.Sprintf("%d|%s", k, strings.Repeat("x", size))))
		}
	}
	fresh(t, s)
	if _, err := v.Snapshot(t.Context()); err != nil { // loads the view
		t.Fatal(err)
	}
	rev := items[len(items)-1].Rev
	for k, i := range items {
		if k%2 == 1 {
			update(t, v, i, "new")
		}
	}
	fresh(t, s)
	db := &countingDB{DB: s.db}
	s.db = db
	return v, db, rev
}

func TestPastReadsWhatIsAsked(t *testing.T) { each(t, testPastReadsWhatIsAsked) }

func testPastReadsWhatIsAsked(t *testing.T, open opener) {
	v, db, rev := old(t, open, 20, 1)
	snap, err := v.SnapshotAt(t.Context(), rev)
	if err != nil {
		t.Fatal(err)
	}
	if got := db.took(); got != "0 keys in 0 reads" {
		t.Errorf("before anything is asked: %s", got)
	}
	for _, c := range []struct {
		name  string
		r     Range
		stop  int // after so many items; 0: never
		want  int
		reads string
	}{
		{"a page", Range{Prefix: "b/", From: "b/005", Take: 4}, 4, 4, "4 keys in 1 reads"},
		{"a page of which few are wanted", Range{Prefix: "b/", Take: 2}, 9, 9, "14 keys in 3 reads"},
		{"the end", Range{Prefix: "a/", From: "a/018", Take: 10}, 0, 2, "2 keys in 1 reads"},
		{"a namespace", Range{Prefix: "a/"}, 0, 20, "20 keys in 1 reads"},
		{"everything", Range{}, 0, 40, "40 keys in 1 reads"},
		{"nothing", Range{Prefix: "c/"}, 0, 0, "0 keys in 1 reads"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := 0
			err := snap.Ascend(t.Context(), c.r, func(i *Item) bool {
				if string(i.Value()) == "new" || !strings.HasPrefix(i.Key, c.r.Prefix) || i.Key < c.r.From {
					t.Errorf("got %s=%s", i.Key, i.Value())
				}
				n++
				return n != c.stop
			})
			if got := db.took(); err != nil || n != c.want || got != c.reads {
				t.Errorf("%d items, %s, %v; want %d, %s", n, got, err, c.want, c.reads)
			}
		})
	}
	if i, err := snap.Get(t.Context(), "b/007"); err != nil || string(i.Value()) != "7|x" {
		t.Errorf("one: %v, %v", i, err)
	}
	if i, err := snap.Get(t.Context(), "b/070"); err != nil || i != nil {
		t.Errorf("one that is not there: %v, %v", i, err)
	}
	if n, err := snap.Count(t.Context(), Range{Prefix: "b/", From: "b/015"}); err != nil || n != 5 {
		t.Errorf("counted %d, %v", n, err)
	}
	if got := db.took(); got != "1 keys in 3 reads" {
		t.Errorf("for two objects and a count: %s", got)
	}
}

// Large objects are read few at a time.
func TestPastPages(t *testing.T) { each(t, testPastPages) }

func testPastPages(t *testing.T, open opener) {
	v, db, rev := old(t, open, 8, 300<<10)
	snap, err := v.SnapshotAt(t.Context(), rev)
	if err != nil {
		t.Fatal(err)
	}
	if n := length(t, snap); n != 16 {
		t.Errorf("%d items", n)
	}
	if err := snap.Ascend(t.Context(), Range{}, func(*Item) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if n := db.largest.Load(); n > 2*pageBytes {
		t.Errorf("%d bytes were read at a time", n)
	}
}

// Readers of the same old revision share its items, and share unchanged objects
// with the view.
func TestPastIsShared(t *testing.T) { each(t, testPastIsShared) }

func testPastIsShared(t *testing.T, open opener) {
	v, _, rev := old(t, open, 10, 1)
	read := func(rev int64) map[string]*Item {
		snap, err := v.SnapshotAt(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]*Item{}
		if err := snap.Ascend(t.Context(), Range{}, func(i *Item) bool { all[i.Key] = i; return true }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	first, again := read(rev), read(rev)
	for key, i := range first {
		if again[key] != i {
			t.Errorf("%s is held twice", key)
		}
		now, err := v.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if (now.Rev == i.Rev) != (now == i) {
			t.Errorf("%s at %d is %p, and at %d %p", key, i.Rev, i, now.Rev, now)
		}
	}
	if len(first) != 20 {
		t.Errorf("%d items", len(first))
	}
}

// endsAfter is a context that ends after a number of calls of Err.
type endsAfter struct {
	context.Context
	looks atomic.Int64
}

func (c *endsAfter) Err() error {
	if c.looks.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func ending(t *testing.T, looks int64) *endsAfter {
	c := &endsAfter{Context: t.Context()}
	c.looks.Store(looks)
	return c
}

// Loops over items end soon after their context.
func TestLoopsEndWithContext(t *testing.T) { each(t, testLoopsEndWithContext) }

func testLoopsEndWithContext(t *testing.T, open opener) {
	memory := &Snapshot{Rev: 3000, items: loadedView(3000).items}
	v, _, rev := old(t, open, 50, 1)
	past, err := v.SnapshotAt(t.Context(), rev)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Snapshot{"memory": memory, "etcd": past} {
		for _, looks := range []int64{0, 2} {
			n := int64(0)
			err := s.Ascend(ending(t, looks), Range{}, func(*Item) bool { n++; return true })
			if !errors.Is(err, context.Canceled) || n > looks*lookEvery {
				t.Errorf("%s: %v after %d items and %d looks", name, err, n, looks)
			}
		}
	}
	read := 0
	shared := v.store.View(Kind{Prefix: "shared/", Trigger: "node", Fields: func([]byte) (fields.Set, error) {
		read++
		return fields.Set{"node": "n"}, nil
	}})
	for n := range 100 {
		create(t, shared, fmt.Sprintf("%03d", n), "1")
	}
	fresh(t, v.store)
	if _, err := shared.Share(ending(t, 1), "n"); !errors.Is(err, context.Canceled) || read > lookEvery {
		t.Errorf("share: %v after %d items", err, read)
	}
	if s, err := shared.Share(t.Context(), "n"); err != nil || length(t, s) != 100 {
		t.Errorf("share: %v", err)
	}
}
