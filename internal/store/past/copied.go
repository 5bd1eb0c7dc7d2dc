package past

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Dated is a change as it is copied from one past to another: a change of the log, with its key below the prefix, the value before it,
// and when and by whom it was made.
type Dated struct {
	kv.Event
	At     time.Time
	Author store.Author
}

// Copy is what another past has, so that one that cannot go on with its own can begin with it.
type Copy struct {
	// Begun is the revision after which the changes begin, BegunAt when that was reached, and Reached the revision up to which they are
	// complete.
	Begun   int64
	BegunAt time.Time
	Reached int64
	// Changes come in the order of their revisions, those of a revision together. Each that is not a creation has the value before it.
	Changes iter.Seq2[[]Dated, error]
}

// After returns the changes after a revision, in the order of their revisions, up to about so many bytes, and the revision up to which
// they are complete. Errors: kv.ErrCompacted, if not all of them are here; kv.ErrTooLarge, if those of one revision are more than MostAtOnce.
func (p *Past) After(ctx context.Context, rev int64, most int) (_ []Dated, reached int64, err error) {
	done, err := p.use()
	if err != nil {
		return nil, 0, err
	}
	defer done()
	defer p.broken.RecoverFatal(&err)
	x := &copying{after: rev, most: most}
	var kinds []string
	p.mu.Lock()
	x.reached = p.reached
	complete := p.begun <= rev
	for kind, k := range p.kinds {
		if n := len(k.segments); n > 0 && k.segments[n-1].last > rev && p.Keeps(kind) {
			complete = complete && k.since <= rev
			kinds = append(kinds, kind)
		}
	}
	p.mu.Unlock()
	if !complete {
		return nil, 0, kv.ErrCompacted
	}
	for _, kind := range kinds {
		if err := x.kind(ctx, p, kind); err != nil {
			return nil, 0, err
		}
	}
	if err := x.cut(); err != nil {
		return nil, 0, err
	}
	return x.found, x.reached, p.addAuthorsTo(x.found)
}

// Complete is the revision after which all changes are here, and when that was reached.
func (p *Past) Complete() (rev int64, at time.Time, err error) {
	done, err := p.use()
	if err != nil {
		return 0, at, err
	}
	defer done()
	defer p.broken.RecoverFatal(&err)
	p.mu.Lock()
	defer p.mu.Unlock()
	rev = p.begun
	for _, k := range p.kinds {
		rev = max(rev, k.since)
	}
	ms, err := p.timeBefore(rev)
	return rev, time.UnixMilli(ms), err
}

// copying gathers the changes after a revision, of one kind after the other.
type copying struct {
	after, reached int64
	most, bytes    int
	found          []Dated
}

// kind gathers those of a kind.
func (x *copying) kind(ctx context.Context, p *Past, kind string) (err error) {
	r, err := p.read(ctx, kind, x.after)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for _, c := range r.segments {
		if err := x.segment(ctx, kind, c); err != nil {
			return err
		}
	}
	return nil
}

// segment gathers those of a segment: of each key it follows the values from the first one on.
func (x *copying) segment(ctx context.Context, kind string, c *cursor) error {
	var key string
	var now unfolding
	n := 0
	for ok := c.it.First(); ok; ok = c.it.Next() {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		entry, err := c.it.ValueAndErr()
		if err != nil {
			return err
		}
		what, ms, rest, err := ofEntry(entry)
		if err != nil {
			return err
		}
		name, rev := ofChange(len(c.place), c.it.Key())
		if name != key {
			key, now = name, unfolding{}
		}
		if rev <= x.after || rev > x.reached || what&before != 0 {
			now.pass(what, rev, rest)
			continue
		}
		was, err := now.fold()
		if err != nil {
			return err
		}
		now.pass(what, rev, rest)
		is, err := now.fold()
		if err != nil {
			return err
		}
		if err := x.add(kind+name, what, ms, was, is); err != nil {
			return err
		}
	}
	return c.it.Error()
}

// unfolding is what a key is, as a value and the deltas after it: many are passed before one is asked for.
type unfolding struct {
	is     kv.KeyValue
	deltas [][]byte
}

// pass passes an entry, whose bytes the cursor takes back.
func (u *unfolding) pass(what byte, rev int64, rest []byte) {
	u.is.ModRevision = rev
	switch what & form {
	case deleted:
		u.is.Value, u.deltas = nil, nil
	case delta:
		u.deltas = append(u.deltas, bytes.Clone(rest))
	default:
		u.is.Value, u.deltas = bytes.Clone(rest), nil
	}
}

// fold returns what the key is.
func (u *unfolding) fold() (kv.KeyValue, error) {
	for _, d := range u.deltas {
		value, err := applyDelta(u.is.Value, d)
		if err != nil {
			return kv.KeyValue{}, err
		}
		u.is.Value = value
	}
	u.deltas = u.deltas[:0]
	return u.is, nil
}

// add takes a change. If there are too many, it leaves out the last of them.
func (x *copying) add(key string, what byte, ms int64, was, now kv.KeyValue) error {
	d := Dated{Event: kv.Event{KeyValue: now, Deleted: what&form == deleted}, At: time.UnixMilli(ms)}
	d.Key = []byte(key)
	if what&created != 0 {
		d.CreateRevision = d.ModRevision
	} else {
		d.Prev = was
	}
	x.found = append(x.found, d)
	if x.bytes += x.size(&d); x.bytes > 2*x.most {
		return x.cut()
	}
	return nil
}

// MostAtOnce bounds the bytes of the changes of one revision that are copied: a transaction may delete very many.
const MostAtOnce = 64 << 20

// size is about what a change takes of memory. A value before it that is not that of another change takes some, too.
func (x *copying) size(d *Dated) int {
	n := len(d.Key) + len(d.Value) + overhead
	if d.Prev.ModRevision <= x.after {
		n += len(d.Prev.Value)
	}
	return n
}

// cut brings the changes into their order, and leaves out those that are too much.
func (x *copying) cut() error {
	slices.SortFunc(x.found, func(a, b Dated) int { return kv.CompareEvents(a.Event, b.Event) })
	x.bytes = 0
	for n := range x.found {
		d := &x.found[n]
		if x.bytes > x.most && d.ModRevision != x.found[n-1].ModRevision {
			x.reached = d.ModRevision - 1
			clear(x.found[n:])
			x.found = x.found[:n]
			return nil
		}
		if x.bytes += x.size(d); x.bytes > max(MostAtOnce, 2*x.most) {
			return fmt.Errorf("the changes of revision %d: %w", d.ModRevision, kv.ErrTooLarge)
		}
	}
	return nil
}

// restore begins with what another past has, if there is one that keeps the same.
func (p *Past) restore(ctx context.Context) (bool, error) {
	if p.Restore == nil {
		return false, nil
	}
	c, err := p.Restore(ctx)
	if err != nil || c == nil {
		return false, err
	}
	if err := p.empty(c.Begun, c.BegunAt); err != nil {
		return false, err
	}
	for changes, err := range c.Changes {
		if err == nil {
			err = p.take(ctx, changes)
		}
		if err != nil {
			return false, err
		}
	}
	if err := p.write(func(*recording) (int64, error) { return c.Reached, nil }); err != nil {
		return false, err
	}
	p.found = c.Reached
	return true, nil
}

// take records changes of another past, each at its time.
func (p *Past) take(ctx context.Context, changes []Dated) error {
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].At.Equal(changes[0].At) {
			n++
		}
		for n < len(changes) && changes[n].ModRevision == changes[n-1].ModRevision {
			n++
		}
		some := changes[:n]
		changes = changes[n:]
		err := p.write(func(r *recording) (int64, error) {
			r.now, r.ms, r.copied = some[0].At, max(p.lastTime, some[0].At.UnixMilli()), true
			for i := range some {
				if some[i].Author != (store.Author{}) {
					r.set(numbered(authorSpace, some[i].ModRevision), authorBytes(&some[i].Author))
				}
				e := some[i].Event
				e.Key = []byte(p.Prefix + string(e.Key))
				if err := r.event(ctx, &e); err != nil {
					return 0, err
				}
			}
			return some[n-1].ModRevision, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
