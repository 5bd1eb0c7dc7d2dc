package store

import (
	"context"

	"github.com/tidwall/btree"
)

// shares are a view's items by the value of its trigger field, so that listing
// the items of one value does not look at the others.
type shares map[string]*btree.Map[string, *Item]

func (s shares) set(value string, i *Item) {
	if value == "" {
		return
	}
	m := s[value]
	if m == nil {
		m = &btree.Map[string, *Item]{}
		s[value] = m
	}
	m.Set(i.Key, i)
}

func (s shares) delete(value string, i *Item) {
	m := s[value]
	if m == nil {
		return
	}
	if m.Delete(i.Key); m.Len() == 0 {
		delete(s, value)
	}
}

// Share is Snapshot of only the items whose trigger field has one of these
// values, none of which may be empty.
func (v *View) Share(ctx context.Context, values ...string) (*Snapshot, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return nil, err
	}
	for v.shares == nil {
		// This is the first request for a share. Reading the fields of all
		// items takes time, so most of it is done without the lock.
		all := v.items.Copy()
		v.mu.Unlock()
		if err := (&Snapshot{items: all}).Ascend(ctx, Range{}, func(i *Item) bool { v.trigger(i); return true }); err != nil {
			return nil, err
		}
		if err := v.lockLoaded(ctx); err != nil {
			return nil, err
		}
		v.shareLocked()
	}
	s := &Snapshot{Rev: v.passedLocked(), shared: true}
	var parts []*btree.Map[string, *Item]
	for _, value := range values {
		if m := v.shares[value]; m != nil {
			parts = append(parts, m.Copy())
		}
	}
	v.mu.Unlock()
	s.items = joined(parts)
	return s, nil
}

// joined returns the items of some maps. It may change them.
func joined(parts []*btree.Map[string, *Item]) *btree.Map[string, *Item] {
	all := &btree.Map[string, *Item]{}
	for n, part := range parts {
		if n == 0 {
			all = part
			continue
		}
		part.Scan(func(key string, i *Item) bool {
			all.Set(key, i)
			return true
		})
	}
	return all
}

// shareLocked makes the shares of the items in the view.
func (v *View) shareLocked() {
	v.shares = shares{}
	v.items.Scan(func(_ string, i *Item) bool {
		v.shares.set(v.trigger(i), i)
		return true
	})
}

// trigger returns the value of the kind's trigger field of an item, or "" if
// there is none.
func (v *View) trigger(i *Item) string {
	if i == nil {
		return ""
	}
	f, err := v.Fields(i)
	if err != nil {
		return ""
	}
	return f[v.kind.Trigger]
}
