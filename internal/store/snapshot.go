package store

import (
	"context"
	"strings"

	"github.com/tidwall/btree"
)

// Snapshot is the objects of a view at one revision. It does not change.
type Snapshot struct {
	// Rev is the revision: all events up to it are in, none after it is.
	Rev   int64
	items *btree.Map[string, *Item]
}

// Get returns the item at a key, or nil.
func (s *Snapshot) Get(key string) *Item {
	i, _ := s.items.Get(key)
	return i
}

// Len is the number of items.
func (s *Snapshot) Len() int { return s.items.Len() }

// Ascend calls yield for the items whose keys begin with prefix, in order from
// key start on (inclusive; empty: from the first), until it returns false.
func (s *Snapshot) Ascend(prefix, start string, yield func(*Item) bool) {
	if start < prefix {
		start = prefix
	}
	s.items.Ascend(start, func(key string, i *Item) bool {
		return strings.HasPrefix(key, prefix) && yield(i)
	})
}

// Get returns the current item at a key, or ErrNotFound. It does not wait for
// anything but the view's load; call Store.Fresh or WaitFor before.
func (v *View) Get(ctx context.Context, key string) (*Item, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return nil, err
	}
	i, ok := v.items.Get(key)
	v.mu.Unlock()
	if !ok {
		return nil, ErrNotFound
	}
	return i, nil
}

// Snapshot returns the view as it is now. As with Get, what "now" must hold is
// for Store.Fresh or WaitFor to settle before.
func (v *View) Snapshot(ctx context.Context) (*Snapshot, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return nil, err
	}
	defer v.mu.Unlock()
	return &Snapshot{Rev: v.passedLocked(), items: v.items.Copy()}, nil
}

// passedLocked is the revision that the view is at. What the log has passed is
// in the view; what the view holds beyond that is at v.rev. So it is complete
// up to the larger of the two, and has nothing after it.
func (v *View) passedLocked() int64 { return max(v.store.Revision(), v.rev) }

// SnapshotAt returns the view as it was at revision rev, from memory where the
// window reaches back so far and else from etcd. ErrCompacted: etcd has it no
// more; ErrFuture: it has not come yet.
func (v *View) SnapshotAt(ctx context.Context, rev int64) (*Snapshot, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return nil, err
	}
	if rev > v.passedLocked() {
		v.mu.Unlock()
		return nil, ErrFuture
	}
	if rev < v.window.start {
		v.mu.Unlock()
		items, _, err := v.read(ctx, rev)
		if err != nil {
			return nil, err
		}
		return &Snapshot{Rev: rev, items: items}, nil
	}
	s := &Snapshot{Rev: rev, items: v.items.Copy()}
	undo, _ := v.window.since(v.window.after(rev))
	v.mu.Unlock()
	for n := len(undo) - 1; n >= 0; n-- {
		if e := undo[n]; e.Prev != nil {
			s.items.Set(e.Prev.Key, e.Prev)
		} else {
			s.items.Delete(e.Item.Key)
		}
	}
	return s, nil
}

// Latest reads one item from etcd itself, or ErrNotFound: what a writer needs
// that has found its view to be behind.
func (v *View) Latest(ctx context.Context, key string) (*Item, error) {
	r, err := v.store.db.Client.Get(ctx, v.etcdPrefix+key)
	if err != nil {
		return nil, err
	}
	if len(r.Kvs) == 0 {
		return nil, ErrNotFound
	}
	return v.item(ctx, r.Kvs[0]), nil
}
