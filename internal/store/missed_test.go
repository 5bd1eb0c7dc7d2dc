package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// indexed is a view of some objects with labels.
func indexed(t *testing.T, objects int) *View {
	values := make([]string, objects)
	for n := range values {
		values[n] = fmt.Sprintf("tier=t%d", n%7)
		if n%5 == 0 {
			values[n] = "app=web"
		}
	}
	return labelled(t, values)
}

// index returns an index of a view as it is now; nil: there is none.
func index(t *testing.T, v *View, by Order) *Ordered {
	t.Helper()
	o, err := v.Ordered(t.Context(), 0, by)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// makes wants an index so much that it is made.
func makes(t *testing.T, v *View, by Order) {
	t.Helper()
	v.Missed(by, worth*v.items.Len())
	eventually(t, func() bool { return index(t, v, by) != nil })
}

// An index is made when it pays, and not in a small view.
func TestMissed(t *testing.T) {
	small := indexed(t, indexFrom-1)
	small.Missed(small.ByLabel("tier"), 100*worth*indexFrom)
	if small.making != nil || small.missed != nil {
		t.Error("an index of few objects")
	}
	v := indexed(t, indexFrom)
	now := clocktesting.NewFakeClock(time.Now())
	v.store.clock = now
	by := v.ByLabel("tier")
	v.Missed(by, worth*indexFrom-1)
	if v.missed[by.Name].looked != worth*indexFrom-1 {
		t.Error("an index is made too soon")
	}
	now.Step(orderIdle + 1)
	v.Missed(by, 1)
	if v.missed[by.Name].looked != 1 {
		t.Error("what was long ago counts")
	}
	v.Missed(by, worth*indexFrom-1)
	eventually(t, func() bool { return index(t, v, by) != nil })
	snap, err := v.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equalInOrder(t, v, snap, by)
	if has := index(t, v, by).items.Len(); has != indexFrom*4/5 {
		t.Errorf("%d items are in the index", has)
	}
	v.Missed(by, worth*indexFrom)
	v.store.tasks.running.Wait()
	if len(v.orders) != 1 {
		t.Errorf("%d indexes of a label", len(v.orders))
	}
}

// There are only so many indexes, which take no room from orders; and only so many are counted.
func TestIndexRoom(t *testing.T) {
	v := indexed(t, indexFrom)
	now := clocktesting.NewFakeClock(time.Now())
	v.store.clock = now
	for n := range maxIndexes {
		makes(t, v, v.ByLabel(fmt.Sprint("l", n)))
	}
	v.Missed(v.ByLabel("more"), worth*indexFrom)
	v.store.tasks.running.Wait()
	if index(t, v, v.ByLabel("more")) != nil {
		t.Error("there is one more index")
	}
	if o, err := v.Ordered(t.Context(), 0, Order{Name: "name", Value: (*Item).Name}); o == nil || err != nil {
		t.Errorf("indexes took the room of an order: %v, %v", o, err)
	}
	for n := range 2 * maxMissed {
		v.Missed(v.ByLabel(fmt.Sprint("m", n)), 1)
	}
	if len(v.missed) != maxMissed {
		t.Errorf("%d indexes are counted", len(v.missed))
	}
	now.Step(orderIdle + 1)
	makes(t, v, v.ByLabel("more"))
	if len(v.orders) != 1 {
		t.Errorf("%d orders are kept", len(v.orders))
	}
}

// An index has what there is at its revision, and says if there is something of which it knows nothing.
func TestIndexFollows(t *testing.T) {
	v := indexed(t, indexFrom)
	by := v.ByLabel("tier")
	makes(t, v, by)
	r := rand.New(rand.NewPCG(7, 11))
	rev := int64(indexFrom)
	broken := map[string]bool{}
	var before *Snapshot
	for n := range 300 {
		rev++
		at := r.IntN(40)
		key := fmt.Sprintf("ns%d/name-%06d", at%30, at)
		delete(broken, key)
		switch {
		case n%50 == 40:
			broken[key] = true
			feed(v, rev, key, "not labels")
		case r.IntN(4) == 0:
			e := kv.Event{Deleted: true}
			e.Key, e.ModRevision = []byte(v.etcdPrefix+key), rev
			v.apply(t.Context(), []kv.Event{e})
		default:
			feed(v, rev, key, []string{"app=web", "tier=t0,app=web", "tier=t9", ""}[r.IntN(4)])
		}
		now, err := v.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := index(t, v, by).Unreadable(); got != (len(broken) > 0) {
			t.Fatalf("after %d changes: unreadable %v, want %v", n, got, len(broken) > 0)
		}
		for _, snap := range []*Snapshot{now, before} {
			if snap == nil {
				continue
			}
			o, err := v.Ordered(t.Context(), snap.Rev, by)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			if err := o.Equal(t.Context(), "t0", Range{}, func(i *Item) bool { got = append(got, i.Key); return true }); err != nil {
				t.Fatal(err)
			}
			if err := snap.Ascend(t.Context(), Range{}, func(i *Item) bool {
				if by.Value(i) == "t0" {
					want = append(want, i.Key)
				}
				return true
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("after %d changes, at %d: %q, want %q", n, snap.Rev, got, want)
			}
		}
		before = now
	}
}
