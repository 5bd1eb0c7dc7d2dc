// Package splice makes one log of several that a set of keys has lain in, one after the other: they were carried from each into the next.
//
// A reader sees one log, whose revisions only grow. Each part counts its revisions anew, as package shift does: those of the log that it lies
// in, and a number that never changes. A part begins at a revision, Since, at which it has all that the part before it had at its end.
//
// What was carried keeps its revisions: Carry puts them before the value, and they go with the next change of the key. So a client that has
// read an object before it was carried can change it as before, and a watch goes on where it was: what it has not been told yet is in
// the history of the part before, which is read for as long as that log has it. Then it is told that the revision is compacted, as of any log.
package splice

import (
	"context"
	"slices"
	"time"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Part is a log, for the time in which the keys lay in it.
type Part struct {
	DB store.DB
	// By is how much greater revisions are than those of DB: 0 or more.
	By int64
	// Since is the revision, as it is counted here, of which it has everything; before it there is nothing to be read. 0: it has everything.
	Since int64
	// Until is the last one of which it tells; that of the last part is not looked at.
	Until int64
}

// DB is a log of several parts.
type DB struct {
	store.DB // of the last part
	before   []Part
	now      Part
}

// New makes one log of parts, the newest last.
func New(parts ...Part) *DB {
	last := len(parts) - 1
	return &DB{DB: parts[last].DB, before: parts[:last], now: parts[last]}
}

// patience is how long a log that the keys have left may take to tell its history. A reader then lists again, as if it were compacted.
const patience = 5 * time.Second

// out makes a key one of this log.
func (p *Part) out(k kv.KeyValue) kv.KeyValue {
	if c, ok := carried(k); ok {
		return c
	}
	for _, rev := range []*int64{&k.CreateRevision, &k.ModRevision} {
		if *rev != 0 {
			*rev += p.By
		}
	}
	return k
}

// Head is part of store.DB.
func (d *DB) Head(ctx context.Context) (int64, error) {
	rev, err := d.DB.Head(ctx)
	return rev + d.now.By, err
}

// Range is part of store.DB.
func (d *DB) Range(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	if r.Rev != 0 && r.Rev < d.now.Since {
		return d.past(ctx, r, yield)
	}
	if r.Rev != 0 {
		r.Rev -= d.now.By
	}
	a, err := d.DB.Range(ctx, r, d.now.yielding(yield))
	if a.Rev != 0 {
		a.Rev += d.now.By
	}
	return a, err
}

func (p *Part) yielding(yield kv.Yield) kv.Yield {
	if yield == nil {
		return nil
	}
	return func(k kv.KeyValue) bool { return yield(p.out(k)) }
}

// past reads a revision of before the last part.
func (d *DB) past(ctx context.Context, r kv.Range, yield kv.Yield) (kv.Answer, error) {
	n := len(d.before) - 1
	for n >= 0 && r.Rev < d.before[n].Since {
		n--
	}
	if n < 0 {
		return kv.Answer{}, kv.ErrCompacted
	}
	p := &d.before[n]
	r.Rev = min(r.Rev, p.Until) - p.By
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a, err := p.DB.Range(ctx, r, p.yielding(yield))
	if err != nil {
		return kv.Answer{}, gone(ctx, err)
	}
	a.Rev = d.now.Since // it is at least as new
	return a, nil
}

// gone is the error of a part that the keys have left: whatever keeps its history away, readers go on without it.
func gone(ctx context.Context, err error) error {
	if context.Cause(ctx) == context.Canceled { //nolint:errorlint // it is what the caller has ended, not the time
		return err
	}
	return kv.ErrCompacted
}

// Commit is part of store.DB.
func (d *DB) Commit(ctx context.Context, t kv.Txn) (kv.Committed, error) {
	own := t
	own.If, own.ElseKeys = make([]kv.Condition, 0, len(t.If)), false // the value has the revisions of what was carried
	for _, c := range t.If {
		c, err := d.condition(ctx, c)
		if err != nil {
			return kv.Committed{}, err
		}
		own.If = append(own.If, c)
	}
	done, err := d.DB.Commit(ctx, own)
	if done.Rev != 0 {
		done.Rev += d.now.By
	}
	done.Else = slices.Clone(done.Else)
	for n, k := range done.Else {
		if k == nil {
			continue
		}
		seen := d.now.out(*k)
		if t.ElseKeys {
			seen.Value = nil
		}
		done.Else[n] = &seen
	}
	return done, err
}

// never is a revision that no key has.
const never = 1<<63 - 1

// condition is what a condition compares with in the log of the last part. What was carried has another revision there, which is looked up.
func (d *DB) condition(ctx context.Context, c kv.Condition) (kv.Condition, error) {
	if c.N <= 0 || c.Is == kv.Version {
		return c, nil
	}
	if c.N > d.now.Since {
		c.N -= d.now.By
		return c, nil
	}
	var is *kv.KeyValue
	if _, err := d.DB.Range(ctx, kv.Range{Key: c.Key}, func(k kv.KeyValue) bool { is = &k; return false }); err != nil {
		return c, err
	}
	atMost := c.Is == kv.ModRevisionAtMost
	if is == nil {
		if atMost {
			c.N = 0 // it is still not there
		} else {
			c.N = never
		}
		return c, nil
	}
	was, ok := carried(*is)
	c.Is = kv.ModRevision
	if ok && (was.ModRevision == c.N || atMost && was.ModRevision < c.N) {
		c.N = is.ModRevision
	} else {
		c.N = never
	}
	return c, nil
}

// Watch is part of store.DB.
func (d *DB) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	for n := range d.before {
		p := &d.before[n]
		if n == 0 && p.Since > 0 && w.From <= p.Since {
			return kv.ErrCompacted // what changed at the first revision is not told
		}
		if w.From = max(w.From, p.Since+1); w.From > p.Until {
			continue
		}
		if err := p.tell(ctx, w, deliver); err != nil {
			return err
		}
		if w.Until != 0 && w.Until <= p.Until {
			return nil
		}
		w.From = p.Until + 1
	}
	if len(d.before) == 0 && w.From <= d.now.Since && d.now.Since > 0 {
		return kv.ErrCompacted
	}
	w.From = max(w.From, d.now.Since+1)
	if w.Until != 0 && w.Until < w.From {
		return nil
	}
	w.From -= d.now.By
	if w.Until != 0 {
		w.Until -= d.now.By
	}
	return d.DB.Watch(ctx, w, d.now.delivering(deliver))
}

// tell tells what has happened in a part that the keys have left.
func (p *Part) tell(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	w.Ask = nil
	if w.Until == 0 || w.Until > p.Until {
		w.Until = p.Until
	}
	w.From, w.Until = w.From-p.By, w.Until-p.By
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var refused error
	err := p.DB.Watch(ctx, w, p.delivering(func(events []kv.Event, rev int64) error {
		refused = deliver(events, rev)
		return refused
	}))
	if err == nil || refused != nil {
		return refused
	}
	return gone(ctx, err)
}

func (p *Part) delivering(deliver kv.Deliver) kv.Deliver {
	return func(events []kv.Event, rev int64) error {
		events = slices.Clone(events)
		for n := range events {
			e := &events[n]
			e.KeyValue, e.Prev = p.out(e.KeyValue), p.out(e.Prev)
			if e.At != 0 {
				e.At += p.By
			}
		}
		return deliver(events, rev+p.By)
	}
}

// Compact is part of store.DB.
func (d *DB) Compact(ctx context.Context, rev int64) error {
	if rev <= d.now.Since {
		return kv.ErrCompacted
	}
	return d.DB.Compact(ctx, rev-d.now.By)
}
