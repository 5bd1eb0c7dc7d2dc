package store

import (
	"context"
	"slices"
	"time"
)

const (
	// indexFrom is the number of items from which on a view has indexes.
	indexFrom = 1000
	// worth is how often as many items as a view has are looked at for want of an index, until it is made: to make one of 200,000 items
	// takes 0.5 s, as long as fifty lists without it.
	worth = 50
	// maxMissed bounds the indexes whose want is counted at a time.
	maxMissed = 32
)

// missed counts the items that were looked at for want of indexes, by their names.
type missed map[string]*miss

type miss struct {
	looked int
	since  time.Time
}

// Missed notes that somebody has looked at some items, which an index would have found. When so many were looked at that it pays, the index
// is made in the background.
func (v *View) Missed(by Order, looked int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state != loaded || v.items.Len() < indexFrom || !v.missed.add(by.Name, looked, v.store.clock.Now()) ||
		v.missed[by.Name].looked < worth*v.items.Len() || v.making != nil || !v.roomLocked(&by) {
		return
	}
	delete(v.missed, by.Name)
	v.store.tasks.start(func(ctx context.Context) {
		err := v.store.guard.Call("indexing "+v.kind.Prefix, func() error { return v.makeIndex(ctx, &by) })
		if err != nil && ctx.Err() == nil {
			v.store.log.Warn("an index could not be made", "view", v.kind.Prefix, "index", by.Name, "error", err)
		}
	})
}

// makeIndex makes an index, unless another order is being made.
func (v *View) makeIndex(ctx context.Context, by *Order) error {
	if err := v.lockLoaded(ctx); err != nil {
		return err
	}
	if v.making != nil || slices.ContainsFunc(v.orders, func(o *order) bool { return o.is(by) }) {
		v.mu.Unlock()
		return nil
	}
	_, err := v.makeOrderLocked(ctx, by)
	return err
}

// add counts items. It returns false if there is no room for another name.
func (m *missed) add(name string, looked int, now time.Time) bool {
	if *m == nil {
		*m = missed{}
	}
	of := (*m)[name]
	if of == nil || now.Sub(of.since) > orderIdle {
		if of == nil && len(*m) >= maxMissed && !m.forget(now) {
			return false
		}
		of = &miss{since: now}
		(*m)[name] = of
	}
	of.looked += looked
	return true
}

// forget drops what nobody has wanted lately, and returns whether there was such a thing.
func (m *missed) forget(now time.Time) (dropped bool) {
	for name, of := range *m {
		if now.Sub(of.since) > orderIdle {
			delete(*m, name)
			dropped = true
		}
	}
	return dropped
}
