package store

import (
	"context"
	"errors"
	"strings"

	"github.com/tidwall/btree"
	clientv3 "go.etcd.io/etcd/client/v3"
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
	for {
		if err := v.ready(ctx); err != nil {
			if errors.Is(err, errReset) {
				continue
			}
			return nil, err
		}
		v.mu.Lock()
		if v.state != loaded {
			v.mu.Unlock()
			continue
		}
		i, ok := v.items.Get(key)
		v.mu.Unlock()
		if !ok {
			return nil, ErrNotFound
		}
		return i, nil
	}
}

// Snapshot returns the view as it is now. As with Get, what "now" must hold is
// for Store.Fresh or WaitFor to settle before.
func (v *View) Snapshot(ctx context.Context) (*Snapshot, error) {
	for {
		if err := v.ready(ctx); err != nil {
			if errors.Is(err, errReset) {
				continue
			}
			return nil, err
		}
		// What the log had passed before the lock is in the view; what the
		// view holds beyond that is at v.rev. So the snapshot is complete up
		// to the larger of the two, and has nothing after it.
		passed := v.store.Revision()
		v.mu.Lock()
		if v.state != loaded {
			v.mu.Unlock()
			continue
		}
		s := &Snapshot{Rev: max(passed, v.rev), items: v.items.Copy()}
		v.mu.Unlock()
		return s, nil
	}
}

// SnapshotAt returns the view as it was at revision rev, from memory where the
// window reaches back so far and else from etcd. ErrCompacted: etcd has it no
// more; ErrFuture: it has not come yet.
func (v *View) SnapshotAt(ctx context.Context, rev int64) (*Snapshot, error) {
	s, err := v.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if rev > s.Rev {
		return nil, ErrFuture
	}
	v.mu.Lock()
	inWindow := rev >= v.window.start && v.state == loaded
	var undo []*Event
	if inWindow {
		undo, _ = v.window.since(v.window.after(rev))
	}
	v.mu.Unlock()
	if !inWindow {
		return v.readAt(ctx, rev)
	}
	// Events after s.Rev are not in s; undoing them is harmless, since each
	// undo restores what was before it and the older ones come after.
	s.Rev = rev
	for n := len(undo) - 1; n >= 0; n-- {
		if e := undo[n]; e.Prev != nil {
			s.items.Set(e.Prev.Key, e.Prev)
		} else {
			s.items.Delete(e.Item.Key)
		}
	}
	return s, nil
}

// readAt reads the whole view from etcd as of rev.
func (v *View) readAt(ctx context.Context, rev int64) (*Snapshot, error) {
	s := &Snapshot{Rev: rev, items: &btree.Map[string, *Item]{}}
	var at int64
	err := v.rangeAt(ctx, v.etcdPrefix, clientv3.GetPrefixRangeEnd(v.etcdPrefix), rev, 0, func(i *Item) {
		s.items.Set(i.Key, i)
	}, &at)
	if err != nil {
		return nil, err
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
