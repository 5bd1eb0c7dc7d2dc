package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"
)

const (
	// maxOrders bounds the orders that a view keeps, and maxIndexes those of them that are indexes. Each holds some hundred bytes for an item.
	maxOrders, maxIndexes = 8, 4
	// orderIdle is how long nobody asks for an order before it is dropped. Only that makes room: whoever asks for many orders cannot have
	// those of others dropped and made anew all the time.
	orderIdle = 5 * time.Minute
)

// Order names a value by which items can be ordered, and reads it. It is an index too: items of one value are next to each other.
type Order struct {
	// Of and Name stand for the order. Of is whoever reads the value, nil if everybody reads the same.
	Of   any
	Name string
	// Value has no zero bytes, and is always the same for an item.
	Value func(*Item) string
	// Index says that only items that have a value are in the order. It is made when that pays: see Missed.
	Index bool
}

func (o *Order) is(other *Order) bool { return o.Of == other.Of && o.Name == other.Name }

// order is a view's items in another order than that of their keys.
type order struct {
	Order
	items *btree.Map[string, *Item] // by OrderKey
	asked time.Time                 // for it, last
}

// place is the key of an item in an order: items of one value are in the order of their keys. There is none if the item is nil, or has no
// value that an index would have.
func (o *order) place(i *Item) (key string, ok bool) {
	if i == nil {
		return "", false
	}
	value := o.Value(i)
	return OrderKey(value, i.Key), value != "" || !o.Index
}

// OrderValue is a value as it is in an order: without the bytes that end values there, and never Unreadable.
func OrderValue(value string) string {
	if value = strings.ReplaceAll(value, "\x00", ""); value == Unreadable {
		return Unreadable + Unreadable // what has this value is found with it, by who looks again
	}
	return value
}

// Unreadable is the value of items whose value cannot be read. Whoever asks for items of a value has to be told of them.
const Unreadable = "\x01"

// Unreadable says that there are such items.
func (o *Ordered) Unreadable() (found bool) {
	within := OrderKey(Unreadable, "")
	o.items.Ascend(within, func(key string, _ *Item) bool {
		found = strings.HasPrefix(key, within)
		return false
	})
	return found
}

// OrderKey is the place of an item, of which the value and the key are given, in an order. Values have no zero bytes.
func OrderKey(value, key string) string { return value + "\x00" + key }

func (o *order) apply(ev *Event) {
	if key, ok := o.place(ev.Prev); ok {
		o.items.Delete(key)
	}
	if key, ok := o.place(ev.Item); ok {
		o.items.Set(key, ev.Item)
	}
}

// Ordered is a view's items at one revision, in order of some value.
type Ordered struct {
	Rev   int64
	items *btree.Map[string, *Item]
}

// Each calls yield for the items in their order, or the other way round, until it returns false. It begins after the item whose OrderKey
// is given; empty: with the first.
func (o *Ordered) Each(ctx context.Context, after string, descending bool, yield func(*Item) bool) error {
	var err error
	n := 0
	each := func(key string, i *Item) bool {
		if n%lookEvery == 0 {
			err = ctx.Err()
		}
		n++
		return err == nil && (key == after && after != "" || yield(i))
	}
	switch {
	case !descending:
		o.items.Ascend(after, each)
	case after == "":
		o.items.Reverse(each)
	default:
		o.items.Descend(after, each)
	}
	return err
}

// Equal calls yield for the items of one value that are in a range, in order of their keys, until it returns false.
func (o *Ordered) Equal(ctx context.Context, value string, r Range, yield func(*Item) bool) error {
	var err error
	n, within := 0, OrderKey(value, r.Prefix)
	o.items.Ascend(OrderKey(value, r.start()), func(key string, i *Item) bool {
		if n%lookEvery == 0 {
			err = ctx.Err()
		}
		n++
		return err == nil && strings.HasPrefix(key, within) && yield(i)
	})
	return err
}

// Ordered returns the view at a revision, 0: now, in an order. The first call for an order looks at every item, unless it is an index; from
// then on it is kept with the view, as long as somebody asks for it. Ordered returns nil if the revision is older than the view's window, if
// there is no room for another order, or if it is an index that is not made.
func (v *View) Ordered(ctx context.Context, rev int64, by Order) (*Ordered, error) {
	o, err := v.orderLocked(ctx, &by)
	if err != nil || o == nil {
		return nil, err
	}
	out, start := &Ordered{Rev: v.passedLocked(), items: o.items.Copy()}, v.window.start
	undo, _ := v.window.since(v.window.after(rev))
	v.mu.Unlock()
	switch {
	case rev == 0 || rev == out.Rev:
		return out, nil
	case rev > out.Rev:
		return nil, ErrFuture
	case rev < start:
		return nil, nil
	}
	back := order{Order: by, items: out.items}
	for n := len(undo) - 1; n >= 0; n-- {
		back.apply(&Event{Item: undo[n].Prev, Prev: undo[n].Item})
	}
	out.Rev = rev
	return out, nil
}

// orderLocked locks v.mu and returns an order, which it makes if there is none. Without an order v.mu is not locked. One order is made at
// a time: others who ask for it wait, and do not make it too.
func (v *View) orderLocked(ctx context.Context, by *Order) (*order, error) {
	for {
		if err := v.lockLoaded(ctx); err != nil {
			return nil, err
		}
		for _, o := range v.orders {
			if o.is(by) {
				o.asked = v.store.clock.Now()
				return o, nil
			}
		}
		if by.Index {
			v.mu.Unlock()
			return nil, nil
		}
		making := v.making
		if making == nil {
			o, err := v.makeOrderLocked(ctx, by)
			if err != nil || o == nil {
				return nil, err
			}
			continue
		}
		v.mu.Unlock()
		select {
		case <-making:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// makeOrderLocked makes an order, and unlocks v.mu; nil: there is no room for it. Whoever wants it looks for it again: the view may have been
// reset meanwhile.
func (v *View) makeOrderLocked(ctx context.Context, by *Order) (*order, error) {
	defer v.mu.Unlock()
	if !v.roomLocked(by) {
		return nil, nil
	}
	made := make(chan struct{})
	v.making = made
	defer func() {
		v.making = nil
		close(made)
	}()
	o := &order{Order: *by, items: &btree.Map[string, *Item]{}, asked: v.store.clock.Now()}
	epoch, rev, has := v.epoch, int64(-1), &btree.Map[string, *Item]{}
	var err error
	for err == nil && v.epoch == epoch && rev < v.window.start {
		// Values are read without the lock. Then the window has what came meanwhile; if it came too fast, it is little compared to all.
		was := has
		rev, has = v.passedLocked(), v.items.Copy()
		err = v.unlocked(func() error { return o.follow(ctx, was, has) })
	}
	if err != nil || v.epoch != epoch {
		return o, err
	}
	since, _ := v.window.since(v.window.after(rev))
	for _, ev := range since {
		o.apply(ev)
	}
	v.orders = append(v.orders, o)
	return o, nil
}

// roomLocked says whether there is room for another order.
func (v *View) roomLocked(by *Order) bool {
	v.dropIdleOrdersLocked()
	n := 0
	for _, o := range v.orders {
		if o.Index == by.Index {
			n++
		}
	}
	if by.Index {
		return n < maxIndexes
	}
	return n < maxOrders
}

// unlocked calls f while v.mu, which is locked before and afterwards, is not. Values are read by code that may panic.
func (v *View) unlocked(f func() error) error {
	v.mu.Unlock()
	defer v.mu.Lock()
	return f()
}

// follow brings an order of some items up to others.
func (o *order) follow(ctx context.Context, was, now *btree.Map[string, *Item]) error {
	err := (&Snapshot{items: now}).Ascend(ctx, Range{}, func(i *Item) bool {
		if prev, _ := was.Get(i.Key); prev != i {
			o.apply(&Event{Item: i, Prev: prev})
		}
		return true
	})
	return errors.Join(err, (&Snapshot{items: was}).Ascend(ctx, Range{}, func(i *Item) bool {
		if _, there := now.Get(i.Key); !there {
			o.apply(&Event{Prev: i})
		}
		return true
	}))
}

// dropIdleOrdersLocked drops the orders for which nobody asks any more.
func (v *View) dropIdleOrdersLocked() {
	idle := v.store.clock.Now().Add(-orderIdle)
	v.orders = slices.DeleteFunc(v.orders, func(o *order) bool { return o.asked.Before(idle) })
}

// DropOrders drops the orders by what somebody reads, who has ended.
func (v *View) DropOrders(of any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.orders = slices.DeleteFunc(v.orders, func(o *order) bool { return o.Of == of })
}
