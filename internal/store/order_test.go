package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// An order has the items of its revision, sorted, whatever changed before it was first asked for, since, or after the revision.
func TestOrdered(t *testing.T) { each(t, testOrdered) }

func testOrdered(t *testing.T, open opener) {
	s := run(t, open(t))
	v := s.View(nodes)
	r := rand.New(rand.NewPCG(3, 2))
	items := map[string]*Item{}
	byValue := func(i *Item) string { return string(i.Value()[:2]) }
	var before *Snapshot
	for n := range 200 {
		key, value := fmt.Sprintf("ns%d/o%d", r.IntN(3), r.IntN(20)), fmt.Sprintf("n%d|%d", r.IntN(4), n)
		switch i := items[key]; {
		case i == nil:
			items[key] = create(t, v, key, value)
		case r.IntN(4) == 0:
			if _, err := v.Delete(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			delete(items, key)
		default:
			items[key] = update(t, v, i, value)
		}
		if n < 40 || n%7 > 0 {
			continue
		}
		fresh(t, s)
		now, err := v.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, snap := range []*Snapshot{now, before} {
			if snap == nil {
				continue
			}
			var want []string
			if err := snap.Ascend(t.Context(), Range{}, func(i *Item) bool { want = append(want, OrderKey(byValue(i), i.Key)); return true }); err != nil {
				t.Fatal(err)
			}
			slices.Sort(want)
			for _, descending := range []bool{false, true} {
				o, err := v.Ordered(t.Context(), snap.Rev, Order{Name: "value", Value: byValue})
				if err != nil {
					t.Fatal(err)
				}
				if descending {
					slices.Reverse(want)
				}
				var got []string
				after := ""
				for more := true; more; { // pages of three
					more = false
					page := 0
					err := o.Each(t.Context(), after, descending, func(i *Item) bool {
						if more = page == 3; more {
							return false
						}
						page++
						after = OrderKey(byValue(i), i.Key)
						got = append(got, after)
						return true
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("after %d changes, at %d, descending %v: %q\nwant %q", n, snap.Rev, descending, got, want)
				}
			}
		}
		equalInOrder(t, v, now, Order{Name: "value", Value: byValue})
		before = now
	}
}

// equalInOrder reads the items of each value by an order, and by looking at all.
func equalInOrder(t *testing.T, v *View, snap *Snapshot, by Order) {
	t.Helper()
	o, err := v.Ordered(t.Context(), snap.Rev, by)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"n0", "n3", "n", "none"} {
		for _, r := range []Range{{}, {Prefix: "ns1/"}, {Prefix: "ns1/", From: "ns1/o15"}, {From: "ns1/o15\x00"}} {
			var got, want []string
			if err := o.Equal(t.Context(), value, r, func(i *Item) bool { got = append(got, i.Key); return true }); err != nil {
				t.Fatal(err)
			}
			if err := snap.Ascend(t.Context(), r, func(i *Item) bool {
				if by.Value(i) == value {
					want = append(want, i.Key)
				}
				return true
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("the items of %q in %+v are %q, want %q", value, r, got, want)
			}
		}
	}
}
