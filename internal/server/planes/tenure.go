package planes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kanzen-io/kanzen/internal/server/planes/owners"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// tenure is the log that a plane lies in, for as long as its mark there is as it was when this server took the plane. After that nothing is
// written, and nothing is read either: the keys may be removed because the plane lies elsewhere now, and nobody who watches it may be
// told of that as if its objects were deleted.
type tenure struct {
	store.DB
	mark   string
	rev    int64
	writes bool // what is written depends on the mark; otherwise it depends on the key of the owner
	lost   func()
}

// errEnded says that the mark of a plane is another one now.
var errEnded = errors.New("another server has taken the control plane, or it has moved to another storage class")

// MaxOps is part of store.DB.
func (t *tenure) MaxOps() int {
	if t.writes {
		return t.DB.MaxOps() - 1
	}
	return t.DB.MaxOps()
}

// Commit is part of store.DB.
func (t *tenure) Commit(ctx context.Context, txn kv.Txn) (kv.Committed, error) {
	if !t.writes {
		return t.DB.Commit(ctx, txn)
	}
	txn.If = append(slices.Clip(txn.If), kv.Condition{Key: t.mark, Is: kv.ModRevision, N: t.rev})
	txn.Else = append(slices.Clip(txn.Else), t.mark)
	done, err := t.DB.Commit(ctx, txn)
	if err != nil || done.Held {
		return done, err
	}
	last := len(done.Else) - 1
	now := done.Else[last]
	done.Else = done.Else[:last]
	if now != nil && now.ModRevision == t.rev {
		return done, nil
	}
	t.lost()
	return kv.Committed{}, errEnded
}

// Range is part of store.DB. What is read at an older revision is as it was then.
func (t *tenure) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	a, err := t.DB.Range(ctx, r, yield)
	if err != nil || r.Rev != 0 {
		return a, err
	}
	now := int64(0)
	if _, err := t.DB.Range(ctx, kv.Range{Key: t.mark}, func(k kv.KeyValue) bool { now = k.ModRevision; return false }); err != nil {
		return kv.Answer{}, err
	}
	if now != t.rev {
		t.lost()
		return kv.Answer{}, errEnded
	}
	return a, nil
}

// Watch is part of store.DB. One that follows the whole plane ends before what comes after the mark: it is a key just above all others.
func (t *tenure) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	if w.Until != 0 || !w.Prefix || w.Key != t.mark+"/" {
		return t.DB.Watch(ctx, w, deliver)
	}
	w.Key = t.mark
	return t.DB.Watch(ctx, w, func(events []kv.Event, rev int64) error {
		for n := range events {
			if e := &events[n]; string(e.Key) == t.mark && e.ModRevision > t.rev {
				t.lost()
				before := slices.DeleteFunc(slices.Clone(events), func(o kv.Event) bool { return o.ModRevision >= e.ModRevision || string(o.Key) == t.mark })
				return errors.Join(deliver(before, e.ModRevision-1), errEnded)
			}
		}
		if slices.ContainsFunc(events, func(e kv.Event) bool { return bytes.Equal(e.Key, []byte(t.mark)) }) {
			events = slices.DeleteFunc(slices.Clone(events), func(e kv.Event) bool { return string(e.Key) == t.mark })
		}
		return deliver(events, rev)
	})
}

// take returns the log of a plane for this server, which has become the owner by a fence, if there are owners.
func (f *Fleet) take(ctx context.Context, h *hosted, o *owners.Owners, fence int64) (*claimed, error) {
	// Who takes the plane after this one changes the mark first, and then the record.
	mark, err := int64(0), error(nil)
	if len(f.classes) > 1 {
		if mark, err = readMark(ctx, f.on.DB, h.uid); err != nil {
			return nil, err
		}
	}
	s, err := f.storageOf(ctx, h.uid)
	if err != nil {
		return nil, err
	}
	h.lies(s.class())
	c, err := f.answering(s.class())
	if err != nil {
		return nil, err
	}
	own := &claimed{db: c.db, fence: fence, class: c, storage: s}
	lost := sync.OnceFunc(func() { go f.lose(h, fence) })
	if c.name != "" {
		ctx, cancel := context.WithTimeout(ctx, classPatience)
		defer cancel()
		holds := always
		if o != nil {
			holds = func(ctx context.Context) (bool, error) { return o.Holds(ctx, h.uid, fence) }
		}
		at, err := f.fence(ctx, c.db, h.uid, false, holds)
		if err != nil {
			return nil, fmt.Errorf("the storage class %q: %w", c.name, err)
		}
		own.db = &tenure{DB: c.db, mark: markOf(h.uid), rev: at, writes: true, lost: lost}
		return own, nil
	}
	if o != nil {
		own.db = o.Fence(c.db, h.uid, fence, func() { f.lose(h, fence) })
		if len(f.classes) > 1 {
			own.db = &tenure{DB: own.db, mark: markOf(h.uid), rev: mark, lost: lost}
		}
	}
	return own, nil
}
