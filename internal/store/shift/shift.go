// Package shift counts the revisions of a log anew for who uses it: each is greater by a number that never changes, and there is no
// history before one of them.
//
// Objects that were taken over from another log come after everything that clients know of them from there. A client that names a revision of
// before is told that it is compacted, and lists again; without a shift it could be one of this log, of something else.
package shift

import (
	"context"
	"slices"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// DB is a log with other revisions.
type DB struct {
	store.DB
	by, since int64
}

// New shifts a log by a number, 0 or more. since is the first revision, as it is shifted, that can be read.
func New(db store.DB, by, since int64) *DB { return &DB{db, by, since} }

// Head is part of store.DB.
func (d *DB) Head(ctx context.Context) (int64, error) {
	rev, err := d.DB.Head(ctx)
	return rev + d.by, err
}

// out makes a key one of this log.
func (d *DB) out(k kv.KeyValue) kv.KeyValue {
	for _, rev := range []*int64{&k.CreateRevision, &k.ModRevision} {
		if *rev != 0 {
			*rev += d.by
		}
	}
	return k
}

// Range is part of store.DB.
func (d *DB) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if r.Rev != 0 {
		if r.Rev < d.since {
			return kv.Answer{}, kv.ErrCompacted
		}
		r.Rev -= d.by
	}
	own := yield
	if yield != nil {
		own = func(k kv.KeyValue) bool { return yield(d.out(k)) }
	}
	a, err := d.DB.Range(ctx, r, own)
	if a.Rev != 0 {
		a.Rev += d.by
	}
	return a, err
}

// Commit is part of store.DB.
func (d *DB) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	t.If = slices.Clone(t.If)
	for i := range t.If {
		t.If[i].N = d.condition(t.If[i])
	}
	done, err := d.DB.Commit(ctx, t)
	if done.Rev != 0 {
		done.Rev += d.by
	}
	done.Else = slices.Clone(done.Else)
	for i, k := range done.Else {
		if k != nil {
			shifted := d.out(*k)
			done.Else[i] = &shifted
		}
	}
	return done, err
}

// condition is what a condition compares with in the log beneath. No key there has a revision before its first.
func (d *DB) condition(c kv.Condition) int64 {
	switch {
	case c.N <= 0 || c.Is == kv.Version:
		return c.N
	case c.N > d.by:
		return c.N - d.by
	case c.Is == kv.ModRevisionAtMost:
		return 0 // only a key that does not exist is as old
	}
	return never
}

// never is a revision that no key has.
const never = 1<<63 - 1

// Watch is part of store.DB.
func (d *DB) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	if w.From <= d.since {
		return kv.ErrCompacted // what changed at the first revision is not told
	}
	w.From -= d.by
	if w.Until != 0 {
		w.Until -= d.by
	}
	return d.DB.Watch(ctx, w, func(events []kv.Event, rev int64) error {
		events = slices.Clone(events)
		for i := range events {
			e := &events[i]
			e.KeyValue, e.Prev = d.out(e.KeyValue), d.out(e.Prev)
			if e.At != 0 {
				e.At += d.by
			}
		}
		return deliver(events, rev+d.by)
	})
}

// Compact is part of store.DB.
func (d *DB) Compact(ctx context.Context, rev int64) error {
	if rev <= d.since {
		return kv.ErrCompacted
	}
	return d.DB.Compact(ctx, rev-d.by)
}
