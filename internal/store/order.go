package store

import (
	"context"

	"github.com/tidwall/btree"
)

// maxOrders bounds the orders that a view keeps. Each holds some hundred bytes for an item.
const maxOrders = 4

// order is a view's items in another order than that of their keys.
type order struct {
	name  string
	value func(*Item) string
	items *btree.Map[string, *Item] // by OrderKey
}

// key is where an item is in an order: items of one value are in the order of their keys.
func (o *order) key(i *Item) string { return OrderKey(o.value(i), i.Key) }

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

// Ordered returns the view at a revision, 0: now, by a value that name stands for. The first call for a name looks at every item; from
// then on the order is kept with the view. It returns nil if the revision is older than the view's window.
func (v *View) Ordered(ctx context.Context, rev int64, name string, value func(*Item) string) (*Ordered, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return nil, err
	}
	o := v.orderLocked(name)
	for o == nil {
		// Most values are read without the lock; who is late finds few items that are new.
		all, epoch := v.items.Copy(), v.epoch
		v.mu.Unlock()
		made := &order{name: name, value: value, items: &btree.Map[string, *Item]{}}
		if err := (&Snapshot{items: all}).Ascend(ctx, Range{}, func(i *Item) bool { made.items.Set(made.key(i), i); return true }); err != nil {
			return nil, err
		}
		if err := v.lockLoaded(ctx); err != nil {
			return nil, err
		}
		if o = v.orderLocked(name); o != nil || v.epoch != epoch {
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
	back := order{value: value, items: out.items}
	for n := len(undo) - 1; n >= 0; n-- {
		back.apply(&Event{Item: undo[n].Prev, Prev: undo[n].Item})
	}
	out.Rev = rev
	return out, nil
}

// orderLocked returns an order that the view has, and notes that it is used.
func (v *View) orderLocked(name string) *order {
	for n, o := range v.orders {
		if o.name == name {
			copy(v.orders[1:n+1], v.orders[:n])
			v.orders[0] = o
			return o
		}
	}
	return nil
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
