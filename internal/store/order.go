package store

import (
	"context"
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// maxOrders bounds the orders that a view keeps. Each holds some hundred bytes for an item.
const maxOrders = 8

// Order names a value by which items can be ordered, and reads it. It is an index too: items of one value are next to each other.
type Order struct {
	// Of and Name stand for the order. Of is whoever reads the value, nil if everybody reads the same.
	Of   any
	Name string
	// Value has no zero bytes, and is always the same for an item.
	Value func(*Item) string
}

func (o *Order) is(other *Order) bool { return o.Of == other.Of && o.Name == other.Name }

// order is a view's items in another order than that of their keys.
type order struct {
	Order
	items *btree.Map[string, *Item] // by OrderKey
}

// key is where an item is in an order: items of one value are in the order of their keys.
func (o *order) key(i *Item) string { return OrderKey(o.Value(i), i.Key) }

// OrderKey is the place of an item, of which the value and the key are given, in an order. Values have no zero bytes.
func OrderKey(value, key string) string { return value + "\x00" + key }

func (o *order) apply(ev *Event) {
	if ev.Prev != nil {
		o.items.Delete(o.key(ev.Prev))
	}
	if ev.Item != nil {
		o.items.Set(o.key(ev.Item), ev.Item)
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

// Ordered returns the view at a revision, 0: now, in an order. The first call for an order looks at every item; from then on it is kept
// with the view. Ordered returns nil if the revision is older than the view's window.
func (v *View) Ordered(ctx context.Context, rev int64, by Order) (*Ordered, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return nil, err
	}
	o := v.orderLocked(&by)
	for o == nil {
		// Most values are read without the lock; who is late finds few items that are new.
		all, epoch := v.items.Copy(), v.epoch
		v.mu.Unlock()
		made := &order{Order: by, items: &btree.Map[string, *Item]{}}
		if err := (&Snapshot{items: all}).Ascend(ctx, Range{}, func(i *Item) bool { made.items.Set(made.key(i), i); return true }); err != nil {
			return nil, err
		}
		if err := v.lockLoaded(ctx); err != nil {
			return nil, err
		}
		if o = v.orderLocked(&by); o != nil || v.epoch != epoch {
			continue
		}
		v.catchUpLocked(made, all)
		o = made
		v.orders = append([]*order{o}, v.orders[:min(len(v.orders), maxOrders-1)]...)
	}
	defer v.mu.Unlock()
	out := &Ordered{Rev: v.passedLocked(), items: o.items.Copy()}
	if rev == 0 || rev == out.Rev {
		return out, nil
	}
	if rev > out.Rev {
		return nil, ErrFuture
	}
	if rev < v.window.start {
		return nil, nil
	}
	undo, _ := v.window.since(v.window.after(rev))
	back := order{Order: by, items: out.items}
	for n := len(undo) - 1; n >= 0; n-- {
		back.apply(&Event{Item: undo[n].Prev, Prev: undo[n].Item})
	}
	out.Rev = rev
	return out, nil
}

// orderLocked returns an order that the view has, and notes that it is used.
func (v *View) orderLocked(by *Order) *order {
	for n, o := range v.orders {
		if o.is(by) {
			copy(v.orders[1:n+1], v.orders[:n])
			v.orders[0] = o
			return o
		}
	}
	return nil
}

// DropOrders drops the orders by what somebody reads, who has ended.
func (v *View) DropOrders(of any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.orders = slices.DeleteFunc(v.orders, func(o *order) bool { return o.Of == of })
}

// catchUpLocked brings an order of some items up to those of the view.
func (v *View) catchUpLocked(o *order, of *btree.Map[string, *Item]) {
	v.items.Scan(func(key string, i *Item) bool {
		if was, _ := of.Get(key); was != i {
			o.apply(&Event{Item: i, Prev: was})
		}
		return true
	})
	of.Scan(func(key string, was *Item) bool {
		if _, there := v.items.Get(key); !there {
			o.items.Delete(o.key(was))
		}
		return true
	})
}
