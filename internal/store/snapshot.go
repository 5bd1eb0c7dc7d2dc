package store

import (
	"context"
	"errors"
	"sort"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Snapshot is the objects of a view at one revision. It does not change. A
// snapshot of a revision older than the view's window holds no items itself: it
// reads them from etcd on request.
type Snapshot struct {
	// Rev is the revision: all events up to it are in, none after it is.
	Rev   int64
	items *btree.Map[string, *Item] // nil: items are read from etcd
	view  *View
	// shared says that the items are those of one value of the trigger field.
	shared bool
	// beyond says that they are read from what the log has forgotten.
	beyond bool
}

// Range selects items of a snapshot.
type Range struct {
	// Prefix of their keys.
	Prefix string
	// From is the key to begin at (inclusive); empty: the first.
	From string
	// Take is how many items the caller is likely to take, 0 for all. It bounds
	// how much is read ahead from etcd.
	Take int
}

// start is the first key that can be in the range.
func (r Range) start() string { return max(r.Prefix, r.From) }

// lookEvery is how many items a loop handles between two checks of its context:
// few enough to end soon, and enough that the check costs nothing.
const lookEvery = 16

// Get returns the item at a key, or nil.
func (s *Snapshot) Get(ctx context.Context, key string) (*Item, error) {
	if s.items == nil {
		return s.pastItem(ctx, key)
	}
	i, _ := s.items.Get(key)
	return i, nil
}

// Ascend calls yield for the items of a range in order of their keys, until it
// returns false. It returns an error if ctx ends.
func (s *Snapshot) Ascend(ctx context.Context, r Range, yield func(*Item) bool) error {
	if s.items == nil {
		return s.ascendPast(ctx, r, yield)
	}
	var err error
	n := 0
	s.items.Ascend(r.start(), func(key string, i *Item) bool {
		if n%lookEvery == 0 {
			err = ctx.Err()
		}
		n++
		return err == nil && strings.HasPrefix(key, r.Prefix) && yield(i)
	})
	return err
}

// Count is the number of items in a range.
func (s *Snapshot) Count(ctx context.Context, r Range) (n int64, err error) {
	if s.items == nil {
		return s.countPast(ctx, r)
	}
	end := s.items.Len()
	if r.Prefix != "" {
		end = s.rank(kv.PrefixEnd(r.Prefix))
	}
	return int64(max(end-s.rank(r.start()), 0)), nil
}

// InMemory says that the snapshot's methods do not read from etcd.
func (s *Snapshot) InMemory() bool { return s.items != nil }

// rank is the number of items with lower keys. It is found by position, because
// the tree knows how many items each branch has: counting them would visit all.
func (s *Snapshot) rank(key string) int {
	return sort.Search(s.items.Len(), func(n int) bool {
		at, _, _ := s.items.GetAt(n)
		return at >= key
	})
}

// Path is the key in etcd of the item at a key.
func (v *View) Path(key string) string { return v.etcdPrefix + key }

// Shown is the key of the item at a key as errors name it to clients.
func (v *View) Shown(key string) string { return v.store.shown + v.kind.Prefix + key }

// Below is the key of the item at a key below the store's prefix.
func (v *View) Below(key string) string { return v.kind.Prefix + key }

// singleReads is how many items are read from etcd, one by one, before a view is loaded for them.
const singleReads = 16

// Get returns the current item at a key, or ErrNotFound. It does not wait for
// anything; call Store.Fresh or WaitFor before. While the view is not loaded
// it reads from etcd: one object out of very many is not worth loading them,
// and nobody waits until they are.
func (v *View) Get(ctx context.Context, key string) (*Item, error) {
	if v.readsSingly() {
		return v.Latest(ctx, key)
	}
	return v.seen(ctx, key)
}

// Newest is Get for writers: it knows what this process has written though the log has yet to bring it. A write that is based on
// an older item would be refused, and all be done again.
func (v *View) Newest(ctx context.Context, key string) (*Item, error) {
	v.mu.Lock()
	own := v.own[key] // first: what the log brings from now on is in the view
	v.mu.Unlock()
	i, err := v.Get(ctx, key)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return nil, err
	case own != nil && (i == nil || i.Rev < own.Rev):
		return own, nil
	}
	return i, err
}

// seen is Get for readers who want the view loaded: it is in memory for all that they read next.
func (v *View) seen(ctx context.Context, key string) (*Item, error) {
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

// readsSingly says that the view is not loaded, and an item is to be read from etcd. After some it begins to load the view.
func (v *View) readsSingly() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch v.state {
	case idle:
		if v.gets++; v.gets > singleReads {
			v.gets = 0
			v.loadLocked()
		}
		return true
	case loading:
		return true
	}
	return false
}

// Snapshot returns the view as it is now. As with Get, a caller that needs certain writes to be in it calls Store.Fresh or
// WaitFor first.
func (v *View) Snapshot(ctx context.Context) (*Snapshot, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return nil, err
	}
	defer v.mu.Unlock()
	return &Snapshot{Rev: v.passedLocked(), items: v.items.Copy()}, nil
}

// passedLocked is the revision that the view is at. Everything that the log has
// passed is in the view, and the view may hold later changes, up to v.rev. So it
// is complete up to the larger of the two, and has nothing after it.
func (v *View) passedLocked() int64 { return max(v.store.Revision(), v.rev) }

// SnapshotAt returns the view as it was at revision rev: from memory if the
// window reaches back that far. Otherwise the snapshot's methods read from etcd,
// and return ErrCompacted if etcd no longer has the revision. SnapshotAt returns
// ErrFuture if the revision is not reached yet, and ErrCompacted if it is known
// to be compacted, whatever the window has.
func (v *View) SnapshotAt(ctx context.Context, rev int64) (*Snapshot, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return nil, err
	}
	passed := v.passedLocked()
	v.mu.Unlock()
	if rev <= passed && rev < v.store.compacted.Load() {
		return nil, ErrCompacted
	}
	return v.snapshotAt(ctx, rev)
}

// snapshotAt is SnapshotAt for a revision that may be compacted, in the log or what it has forgotten.
func (v *View) snapshotAt(ctx context.Context, rev int64) (*Snapshot, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return nil, err
	}
	if rev > v.passedLocked() {
		v.mu.Unlock()
		return nil, ErrFuture
	}
	if rev < v.window.start {
		v.mu.Unlock()
		return &Snapshot{Rev: rev, view: v}, nil
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

// Latest reads one item from etcd itself, or returns ErrNotFound. It is for a
// writer that has found its view to be behind.
func (v *View) Latest(ctx context.Context, key string) (*Item, error) {
	began := time.Now()
	found, err := read(ctx, v.store.db, v.etcdPrefix+key, 0)
	v.asked(etcdGet, began, err)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, ErrNotFound
	}
	return v.item(ctx, *found), nil
}
