// Package memory is the store's log in memory, for tests and for control planes
// that need not outlive their process. Revisions, transactions, history,
// compaction and the end of keys are those of package kv. It has no files and no goroutines, and
// its clock is passed in. Tests can make its operations fail or wait, or lose
// their answers (see Fault).
package memory

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/tidwall/btree"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// DB is a log in memory. It implements store.DB.
type DB struct {
	clock  clock.WithDelayedExecution
	faults faults
	// Remember says of which keys it is never forgotten that they were deleted. It is set before the first use. Optional.
	Remember func(key string) bool

	mu sync.Mutex
	// All below is guarded by mu.
	rev       int64                        // the newest
	compacted int64                        // history before it was dropped
	keys      btree.Map[string, []version] // including deleted ones whose history is kept
	events    []event                      // from compacted on; cut off and appended to, never overwritten
	bytes     int64                        // of keys and values in events
	expiring  map[int64]*end               // by time, in nanoseconds since 1970
	changed   chan struct{}                // closed by the next change
	broken    chan struct{}                // closed by Break
}

// version is a key after one of its changes.
type version struct {
	kv.KeyValue
	deleted bool
	ends    int64 // when, in nanoseconds since 1970; 0: never
}

// event is a change of a key: the key after and before it.
type event struct {
	version
	prev kv.KeyValue
}

// New makes an empty log at revision 1, as etcd's first is.
func New(c clock.WithDelayedExecution) *DB { return NewAt(c, 1) }

// NewAt makes an empty log at a revision. Its history begins there: a process whose logs begin at ever larger revisions
// tells clients of an earlier one that what they know is too old.
func NewAt(c clock.WithDelayedExecution, rev int64) *DB {
	return &DB{clock: c, rev: rev, compacted: rev - 1, expiring: map[int64]*end{}, changed: make(chan struct{}), broken: make(chan struct{})}
}

// Head is part of store.DB.
func (d *DB) Head(ctx context.Context) (int64, error) {
	var rev int64
	err := d.do(ctx, Head, func() error { rev = d.rev; return nil })
	return rev, err
}

// Ping is part of store.DB.
func (d *DB) Ping(ctx context.Context) error { return d.do(ctx, Ping, func() error { return nil }) }

// Writable is part of store.DB.
func (d *DB) Writable(context.Context) error { return nil }

// MaxOps is part of store.DB.
func (d *DB) MaxOps() int { return math.MaxInt }

// Size is part of store.DB. It counts the bytes of keys and values, now and in
// history.
func (d *DB) Size(ctx context.Context) (kv.Size, error) {
	var bytes int64
	err := d.do(ctx, Size, func() error { bytes = d.bytes; return nil })
	return kv.Size{Bytes: bytes, InUse: bytes}, err
}

// do carries out an operation under the lock, subject to injected faults.
func (d *DB) do(ctx context.Context, op Operation, f func() error) error {
	fault := d.faults.next(op)
	if fault.Before != nil {
		fault.Before(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if fault.Err != nil && !fault.Lost {
		return fault.Err
	}
	d.mu.Lock()
	err := f()
	d.mu.Unlock()
	if err == nil {
		err = fault.Err
	}
	return err
}

// at returns a key as of revision rev; ok says that it exists.
func at(versions []version, rev int64) (v version, ok bool) {
	for n := len(versions) - 1; n >= 0; n-- {
		if v := versions[n]; v.ModRevision <= rev {
			return v, !v.deleted
		}
	}
	return version{}, false
}

// Range is part of store.DB.
func (d *DB) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	var answer kv.Answer
	var found []kv.KeyValue
	err := d.do(ctx, Range, func() error {
		rev, err := d.readable(r.Rev)
		if err != nil {
			return err
		}
		answer.Rev = d.rev
		d.keys.Ascend(r.Key, func(key string, versions []version) bool {
			if key != r.Key && r.End != kv.NoEnd && key >= r.End {
				return false
			}
			v, ok := at(versions, rev)
			if !ok {
				return true
			}
			answer.Count++
			switch {
			case r.CountOnly:
			case r.Limit > 0 && int64(len(found)) == r.Limit:
				answer.More = true
				return false
			default:
				found = append(found, v.KeyValue)
			}
			return true
		})
		return nil
	})
	if err != nil {
		return kv.Answer{}, err
	}
	for _, k := range found {
		if !yield(k) {
			break
		}
	}
	return answer, nil
}

// Begin takes up keys as they were before the log began, unless it has heard of them: their revisions are those that they had. It
// is not an event.
func (d *DB) Begin(keys ...kv.KeyValue) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keys {
		if _, ok := d.keys.Get(string(k.Key)); !ok {
			d.keys.Set(string(k.Key), []version{{KeyValue: k}})
		}
	}
}

// Scan passes on all keys of a range that the log has heard of, as they were at a revision (0: the newest): nil for one that is not
// there. It returns the newest revision.
func (d *DB) Scan(ctx context.Context, r kv.Range, yield func(key string, k *kv.KeyValue)) (int64, error) {
	type found struct {
		key string
		is  *kv.KeyValue
	}
	var all []found
	var newest int64
	err := d.do(ctx, Range, func() error {
		rev, err := d.readable(r.Rev)
		if err != nil {
			return err
		}
		newest = d.rev
		d.keys.Ascend(r.Key, func(key string, versions []version) bool {
			if key != r.Key && r.End != kv.NoEnd && key >= r.End {
				return false
			}
			f := found{key: key}
			if v, ok := at(versions, rev); ok {
				f.is = &v.KeyValue
			}
			all = append(all, f)
			return true
		})
		return nil
	})
	for _, f := range all {
		yield(f.key, f.is)
	}
	return newest, err
}

// readable returns the revision that rev (0: the newest) stands for, or an
// error if its history is not there.
func (d *DB) readable(rev int64) (int64, error) {
	switch {
	case rev == 0:
		return d.rev, nil
	case rev > d.rev:
		return 0, kv.ErrFuture
	case rev < d.compacted:
		return 0, kv.ErrCompacted
	}
	return rev, nil
}

// Commit is part of store.DB.
func (d *DB) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	ends := d.ends(t.Then)
	var done kv.Committed
	err := d.do(ctx, Commit, func() (err error) {
		done, err = d.commit(t, ends)
		return err
	})
	d.arm(ends)
	if err != nil {
		return kv.Committed{}, err
	}
	return done, nil
}

func (d *DB) commit(t kv.Txn, ends []int64) (kv.Committed, error) {
	if err := check(t.Then); err != nil {
		return kv.Committed{}, err
	}
	for _, c := range t.If {
		if !d.holds(c) {
			return kv.Committed{Rev: d.rev, Else: d.instead(t)}, nil
		}
	}
	d.apply(t.Then, ends)
	return kv.Committed{Held: true, Rev: d.rev}, nil
}

// instead reads what a transaction wants if its conditions do not hold.
func (d *DB) instead(t kv.Txn) []*kv.KeyValue {
	if len(t.Else) == 0 {
		return nil
	}
	out := make([]*kv.KeyValue, len(t.Else))
	for n, key := range t.Else {
		if v, ok := d.now(key); ok {
			if t.ElseKeys {
				v.Value = nil
			}
			out[n] = &v.KeyValue
		}
	}
	return out
}

// now returns the newest version of a key.
func (d *DB) now(key string) (version, bool) {
	versions, _ := d.keys.Get(key)
	return at(versions, d.rev)
}

func (d *DB) holds(c kv.Condition) bool {
	v, ok := d.now(c.Key)
	if !ok {
		v = version{}
	}
	switch c.Is {
	case kv.ModRevisionAtMost:
		return v.ModRevision <= c.N
	case kv.Version:
		return v.Version == c.N
	default:
		return v.ModRevision == c.N
	}
}

// check refuses operations that can never be carried out.
func check(ops []kv.Op) error {
	var keys map[string]bool
	if len(ops) > 1 {
		keys = make(map[string]bool, len(ops))
	}
	for _, o := range ops {
		if len(o.Value) > maxBytes {
			return kv.ErrTooLarge
		}
		if keys[o.Key] {
			return fmt.Errorf("two operations of one transaction are about key %q", o.Key)
		}
		if keys != nil {
			keys[o.Key] = true
		}
	}
	return nil
}

// maxBytes is the largest value, as with etcd.
const maxBytes = 1536 << 10

// apply does operations at the next revision, if they change anything. ends are
// the times at which puts end; nil: none does.
func (d *DB) apply(ops []kv.Op, ends []int64) {
	rev := d.rev + 1
	for n, o := range ops {
		prev, was := d.now(o.Key)
		if o.Delete && !was {
			continue
		}
		e := event{version: version{KeyValue: kv.KeyValue{Key: []byte(o.Key), ModRevision: rev}, deleted: o.Delete}}
		if !o.Delete {
			e.Value, e.CreateRevision, e.Version = o.Value, rev, 1
		}
		switch {
		case o.KeepTTL:
			e.ends = prev.ends
		case ends != nil:
			e.ends = ends[n]
		}
		if was {
			e.prev = prev.KeyValue
			if !o.Delete {
				e.CreateRevision, e.Version = prev.CreateRevision, prev.Version+1
			}
		}
		d.rebind(o.Key, prev.ends, e.ends)
		versions, _ := d.keys.Get(o.Key)
		d.keys.Set(o.Key, append(versions, e.version))
		d.events = append(d.events, e)
		d.bytes += e.size()
		d.rev = rev
	}
	if d.rev == rev {
		close(d.changed)
		d.changed = make(chan struct{})
	}
}

func (v version) size() int64 { return int64(len(v.Key) + len(v.Value)) }

// Compact is part of store.DB.
func (d *DB) Compact(ctx context.Context, rev int64) error {
	return d.do(ctx, Compact, func() error {
		switch {
		case rev <= d.compacted:
			return kv.ErrCompacted
		case rev > d.rev:
			return kv.ErrFuture
		}
		d.compact(rev)
		return nil
	})
}

// compact keeps, of each key, the version that is current at rev and all later
// ones.
func (d *DB) compact(rev int64) {
	d.compacted = rev
	var keys btree.Map[string, []version]
	d.bytes = 0
	d.keys.Scan(func(key string, versions []version) bool {
		var kept []version
		for n, v := range versions {
			last := n == len(versions)-1 || versions[n+1].ModRevision > rev
			if v.ModRevision > rev || last && !v.deleted {
				kept = append(kept, v)
				d.bytes += v.size()
			}
		}
		if kept == nil && d.Remember != nil && d.Remember(key) {
			kept = versions[len(versions)-1:]
		}
		if kept != nil {
			keys.Load(key, kept)
		}
		return true
	})
	d.keys = keys
	var events []event
	for _, e := range d.events {
		if e.ModRevision == rev {
			e.prev = kv.KeyValue{} // it is gone
		}
		if e.ModRevision >= rev {
			events = append(events, e)
		}
	}
	d.events = events
}
