package past

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// change is one that a segment has.
type change struct {
	rev              int64
	key              string // below the kind
	ms               int64
	created, deleted bool
}

func compareChanges(a, b change) int {
	return cmp.Or(cmp.Compare(a.rev, b.rev), strings.Compare(a.key, b.key))
}

// most is how many changes of a segment are taken at a time: it may have very many.
const most = 1000

// changes returns changes of a key, or with all of the keys that begin so, in a segment: those of which wanted says so, sorted by less, and not
// all of them if there are many. Those that are left out come after those that are returned, and are of other revisions.
func (c *cursor) changes(ctx context.Context, key string, all bool, wanted func(*change) bool, less func(a, b change) int) (out []change, more bool, err error) {
	cut := func() {
		slices.SortFunc(out, less)
		n := min(most, len(out))
		for n < len(out) && out[n].rev == out[n-1].rev {
			n++
		}
		more = more || n < len(out)
		out = out[:n]
	}
	begin := append(c.place[:len(c.place):len(c.place)], key...)
	if !all {
		begin = append(begin, 0)
	}
	until := end(begin)
	for ok, n := c.it.SeekGE(begin), 0; ok && string(c.it.Key()) < string(until); ok, n = c.it.Next(), n+1 {
		if n%1024 == 0 && ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		is, err := c.it.ValueAndErr()
		if err != nil {
			return nil, false, err
		}
		what, ms, _, err := ofEntry(is)
		if err != nil {
			return nil, false, err
		}
		found, rev := ofChange(len(c.place), c.it.Key())
		one := change{rev: rev, key: found, ms: ms, created: what&created != 0, deleted: what&form == deleted}
		if what&before == 0 && wanted(&one) {
			out = append(out, one)
		}
		if len(out) >= 4*most {
			cut()
		}
	}
	cut()
	return out, more, c.it.Error()
}

// Watch passes on the changes of keys from a revision on to another one, w.Until, as store.DB does, with what each key was before. Errors:
// kv.ErrCompacted.
func (p *Past) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) (err error) {
	want := strings.TrimPrefix(w.Key, p.Prefix)
	kind := kindOf(want)
	if kind == "" || !p.Keeps(kind) {
		return kv.ErrCompacted
	}
	done, err := p.use()
	if err != nil {
		return err
	}
	defer done()
	defer p.broken.RecoverFatal(&err)
	if err := p.Reach(ctx, w.Until); err != nil {
		return err
	}
	r, err := p.read(ctx, kind, w.From-1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	from := w.From
	for n := 0; n < len(r.segments); {
		found, more, err := r.segments[n].changes(ctx, want[len(kind):], w.Prefix, func(c *change) bool { return from <= c.rev && c.rev <= w.Until }, compareChanges)
		if err != nil {
			return err
		}
		if err := r.deliver(found, deliver); err != nil {
			return err
		}
		if more {
			from = found[len(found)-1].rev + 1
		} else {
			n++
		}
	}
	return deliver(nil, w.Until)
}

// deliver passes changes on, revision by revision.
func (r *reader) deliver(changes []change, deliver kv.Deliver) error {
	for len(changes) > 0 {
		n := slices.IndexFunc(changes, func(c change) bool { return c.rev != changes[0].rev })
		if n < 0 {
			n = len(changes)
		}
		var events []kv.Event
		for k := range changes[:n] {
			e, ok, err := r.event(&changes[k])
			if err != nil {
				return err
			}
			if ok {
				events = append(events, e)
			}
		}
		if len(events) > 0 {
			if err := deliver(events, changes[0].rev); err != nil {
				return err
			}
		}
		changes = changes[n:]
	}
	return nil
}

// event returns a change with what was before it; ok is false if that was forgotten.
func (r *reader) event(c *change) (e kv.Event, ok bool, err error) {
	e.Key, e.ModRevision, e.Deleted = []byte(r.past.Prefix+r.kind+c.key), c.rev, c.deleted
	if !c.deleted {
		now, _, err := r.at(c.key, c.rev)
		if err != nil || now == nil {
			return e, false, err
		}
		e.KeyValue = *now
	}
	if c.created {
		return e, true, nil
	}
	was, _, err := r.at(c.key, c.rev-1)
	if was != nil {
		e.Prev = *was
	}
	return e, was != nil, err
}

// Revisions passes on the changes of a key, or with all of the keys that begin so, below the prefix: from a revision on to older ones, until yield
// returns false. It returns the revision since which they are known. Errors: kv.ErrCompacted, if they are not kept.
func (p *Past) Revisions(ctx context.Context, key string, all bool, rev int64, yield func(*store.Revision) bool) (since int64, err error) {
	kind := kindOf(key)
	if kind == "" || !p.Keeps(kind) {
		return 0, kv.ErrCompacted
	}
	done, err := p.use()
	if err != nil {
		return 0, err
	}
	defer done()
	defer p.broken.RecoverFatal(&err)
	since = p.Since(kind)
	r, err := p.read(ctx, kind, since)
	for errors.Is(err, kv.ErrCompacted) { // some of it was dropped just now
		since = p.Since(kind)
		r, err = p.read(ctx, kind, since)
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	newestFirst := func(a, b change) int { return compareChanges(b, a) }
	for n := len(r.segments) - 1; n >= 0; {
		found, more, err := r.segments[n].changes(ctx, key[len(kind):], all, func(c *change) bool { return c.rev <= rev }, newestFirst)
		if err != nil {
			return 0, err
		}
		for k := range found {
			if goOn, err := r.revision(&found[k], yield); err != nil || !goOn {
				return since, err
			}
		}
		if more {
			rev = found[len(found)-1].rev - 1
		} else {
			n--
		}
	}
	return since, nil
}

// revision passes on one change, unless it was forgotten.
func (r *reader) revision(c *change, yield func(*store.Revision) bool) (goOn bool, err error) {
	e, ok, err := r.event(c)
	if err != nil || !ok {
		return true, err
	}
	author, err := r.past.author(r.tree, c.rev)
	if err != nil {
		return false, err
	}
	return yield(&store.Revision{Rev: c.rev, Time: time.UnixMilli(c.ms).UTC(), Key: r.kind + c.key, Created: c.created, Deleted: c.deleted,
		Author: author, Now: e.Value, Prev: e.Prev.Value}), nil
}
