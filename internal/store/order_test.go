package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
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

// An order is made once, however many ask for it, and has what is written meanwhile, even if that is more than the window holds.
func TestOrderMade(t *testing.T) {
	for _, window := range []int{windowBytes, eventBytes} {
		s := run(t, openers["memory"](t))
		v := s.View(nodes)
		v.window.limit = window
		items := map[string]*Item{}
		for n := range 10 {
			key := fmt.Sprintf("ns1/o%d", n)
			items[key] = create(t, v, key, fmt.Sprintf("n%d|", n%4))
		}
		fresh(t, s)
		var read atomic.Int64
		began, more := make(chan struct{}), make(chan struct{})
		by := Order{Name: "value", Value: func(i *Item) string {
			if read.Add(1) == 1 {
				close(began)
				<-more
			}
			return string(i.Value()[:2])
		}}
		var asking sync.WaitGroup
		ask := func() {
			asking.Go(func() {
				if o, err := v.Ordered(t.Context(), 0, by); err != nil || o == nil {
					t.Error(o, err)
				}
			})
		}
		ask()
		<-began
		for range 5 {
			ask()
		}
		update(t, v, items["ns1/o3"], "n0|new")
		if _, err := v.Delete(t.Context(), items["ns1/o4"]); err != nil {
			t.Fatal(err)
		}
		create(t, v, "ns1/o99", "n3|")
		fresh(t, s)
		for deadline := time.Now().Add(20 * time.Millisecond); time.Now().Before(deadline) && read.Load() == 1; {
			time.Sleep(time.Millisecond) // whoever makes it too reads a value
		}
		if n := read.Load(); n != 1 {
			t.Errorf("%d values are read at a time", n)
		}
		close(more)
		asking.Wait()
		if n := read.Load(); n > 30 {
			t.Errorf("%d values were read", n)
		}
		snap, err := v.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		equalInOrder(t, v, snap, by)
	}
}

// Orders for which somebody asks are kept, and there is no room for more; others are dropped.
func TestOrderRoom(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Now())
	db := openers["memory"](t)
	s := New(db, Options{Prefix: "/registry/", Clock: now})
	t.Cleanup(start(t, s, db))
	v := s.View(nodes)
	create(t, v, "ns1/a", "n1|")
	has := func(name string) bool {
		t.Helper()
		o, err := v.Ordered(t.Context(), 0, Order{Name: name, Value: (*Item).Name})
		if err != nil {
			t.Fatal(err)
		}
		return o != nil
	}
	for n := range maxOrders {
		if !has(fmt.Sprint(n)) {
			t.Errorf("there is no order %d", n)
		}
	}
	if has("more") {
		t.Error("there is one more order")
	}
	now.Step(orderIdle)
	if !has("0") || has("more") {
		t.Error("an order was dropped too soon")
	}
	now.Step(time.Second)
	if !has("more") {
		t.Error("an order for which nobody asks is kept")
	}
	v.mu.Lock()
	left := len(v.orders)
	v.mu.Unlock()
	if left != 2 {
		t.Errorf("there are %d orders", left)
	}
	now.Step(orderIdle + time.Second)
	create(t, v, "ns1/b", "n1|")
	fresh(t, s)
	v.mu.Lock()
	left = len(v.orders)
	v.mu.Unlock()
	if left != 0 {
		t.Errorf("%d orders follow the log, and nobody asks for them", left)
	}
}

// No value that somebody writes says that items cannot be read.
func TestOrderValue(t *testing.T) {
	for value, want := range map[string]string{"a": "a", "": "", "a\x00b": "ab", Unreadable: Unreadable + Unreadable, "\x00" + Unreadable: Unreadable + Unreadable} {
		if got := OrderValue(value); got != want {
			t.Errorf("%q is %q in an order, want %q", value, got, want)
		}
	}
}
