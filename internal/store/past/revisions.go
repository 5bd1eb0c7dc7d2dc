package past

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// changedKey is a key that a revision has changed.
type changedKey struct {
	name    string // below the prefix
	deleted bool

	known bool   // whether its value is
	value []byte // of the last change
}

// parseRevision reads what is written down of a revision.
func parseRevision(value []byte) (at time.Time, keys []changedKey) {
	ms, n := binary.Varint(value)
	at = time.UnixMilli(ms).UTC()
	for value = value[max(n, 0):]; len(value) > 1; {
		op := value[0]
		size, n := binary.Uvarint(value[1:])
		if n <= 0 || size > uint64(len(value)-1-n) {
			return at, keys
		}
		value = value[1+n:]
		keys = append(keys, changedKey{name: string(value[:size]), deleted: op == 1})
		value = value[size:]
	}
	return at, keys
}

// lastChange returns the newest revision that is known, and what it has changed.
func (p *Past) lastChange() (rev int64, keys []changedKey, err error) {
	done, err := p.use()
	if err != nil {
		return 0, nil, err
	}
	defer done()
	defer p.broken.Recover(&err)
	it, err := p.tree.NewIter(&pebble.IterOptions{LowerBound: []byte{revisionSpace}, UpperBound: []byte{revisionSpace + 1}})
	if err != nil {
		return 0, nil, err
	}
	if it.Last() {
		rev = ofNumbered(it.Key())
		_, keys = parseRevision(it.Value())
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return 0, nil, err
	}
	for n := range keys {
		k, known, err := p.valueAt(&keys[n], rev)
		if err != nil {
			return 0, nil, err
		}
		if keys[n].known = known; k != nil {
			keys[n].value = k.Value
		}
	}
	return rev, keys, nil
}

// valueAt reads what a key was at a revision, from the segments alone.
func (p *Past) valueAt(key *changedKey, rev int64) (k *kv.KeyValue, known bool, err error) {
	kind := kindOf(key.name)
	r, err := p.read(context.Background(), kind, rev)
	if errors.Is(err, kv.ErrCompacted) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	k, known, err = r.at(key.name[len(kind):], rev)
	return k, known, errors.Join(err, r.close())
}

// Watch passes on the changes of keys from a revision on to another one, w.Until, as store.DB does, with what each key was before. Errors:
// kv.ErrCompacted.
func (p *Past) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) (err error) {
	if err := p.Reach(ctx, w.Until); err != nil {
		return err
	}
	done, err := p.use()
	if err != nil {
		return err
	}
	defer done()
	defer p.broken.RecoverFatal(&err)
	kind := kindOf(strings.TrimPrefix(w.Key, p.Prefix))
	if kind == "" || !p.Keeps(kind) {
		return kv.ErrCompacted
	}
	r, err := p.read(ctx, kind, w.From-1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	it, err := r.tree.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: numbered(revisionSpace, w.From), UpperBound: numbered(revisionSpace, w.Until+1)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	want := strings.TrimPrefix(w.Key, p.Prefix)
	for it.First(); it.Valid(); it.Next() {
		rev := ofNumbered(it.Key())
		_, keys := parseRevision(it.Value())
		var events []kv.Event
		for _, key := range keys {
			if key.name != want && !(w.Prefix && strings.HasPrefix(key.name, want)) {
				continue
			}
			e, ok, err := r.event(&key, rev)
			if err != nil {
				return err
			}
			if ok {
				events = append(events, e)
			}
		}
		if len(events) == 0 {
			continue
		}
		if err := deliver(events, rev); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	return deliver(nil, w.Until)
}

// event returns a change with what was before it; ok is false if it was forgotten.
func (r *reader) event(key *changedKey, rev int64) (e kv.Event, ok bool, err error) {
	name := key.name[len(r.kind):]
	e.Key, e.ModRevision, e.Deleted = []byte(r.past.Prefix+key.name), rev, key.deleted
	now, known, err := r.at(name, rev)
	if err != nil || !known || key.deleted != (now == nil) {
		return e, false, err
	}
	if now != nil {
		if now.ModRevision != rev {
			return e, false, nil
		}
		e.KeyValue = *now
	}
	if e.Created() {
		return e, true, nil
	}
	was, _, err := r.at(name, rev-1)
	if was != nil {
		e.Prev = *was
	}
	return e, was != nil, err
}

// Revisions passes on the changes of a key, or with all of the keys that begin so, below the prefix: from a revision on to older ones, until yield
// returns false. It returns the revision since which they are known.
func (p *Past) Revisions(ctx context.Context, key string, all bool, rev int64, yield func(*store.Revision) bool) (since int64, err error) {
	done, err := p.use()
	if err != nil {
		return 0, err
	}
	defer done()
	defer p.broken.RecoverFatal(&err)
	kind := kindOf(key)
	if kind == "" || !p.Keeps(kind) {
		return 0, kv.ErrCompacted
	}
	since = p.Since(kind)
	r, err := p.read(ctx, kind, since)
	if errors.Is(err, kv.ErrCompacted) { // some of it was dropped just now
		since = p.Since(kind)
		r, err = p.read(ctx, kind, since)
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if !all {
		return since, r.revisionsOf(ctx, key, rev, yield)
	}
	it, err := r.tree.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: numbered(revisionSpace, since+1), UpperBound: numbered(revisionSpace, rev+1)})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Last(); it.Valid() && ctx.Err() == nil; it.Prev() {
		n := ofNumbered(it.Key())
		_, keys := parseRevision(it.Value())
		for _, k := range keys {
			if !strings.HasPrefix(k.name, key) {
				continue
			}
			if more, err := r.revision(&k, n, yield); err != nil || !more {
				return since, err
			}
		}
	}
	return since, errors.Join(it.Error(), ctx.Err())
}

// revisionsOf passes on the changes of one key.
func (r *reader) revisionsOf(ctx context.Context, key string, rev int64, yield func(*store.Revision) bool) error {
	for n := len(r.segments) - 1; n >= 0; n-- {
		c := r.segments[n]
		for ctx.Err() == nil && c.it.SeekLT(appendChange(c.place, key[len(r.kind):], rev+1)) {
			found, mod := ofChange(len(c.place), c.it.Key())
			is, err := c.it.ValueAndErr()
			if err != nil {
				return err
			}
			if found != key[len(r.kind):] || len(is) == 0 || is[0]&before != 0 { // what it was before is in an older segment
				break
			}
			k := changedKey{name: key, deleted: is[0]&form == deleted}
			if more, err := r.revision(&k, mod, yield); err != nil || !more {
				return err
			}
			rev = mod - 1
		}
		if err := c.it.Error(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// revision passes on one change.
func (r *reader) revision(key *changedKey, rev int64, yield func(*store.Revision) bool) (more bool, err error) {
	e, ok, err := r.event(key, rev)
	if err != nil || !ok {
		return true, err
	}
	out := &store.Revision{Rev: rev, Key: key.name, Deleted: e.Deleted, Created: e.Created(), Now: e.Value, Prev: e.Prev.Value}
	value, done, err := r.tree.Get(numbered(revisionSpace, rev))
	if err == nil {
		out.Time, _ = parseRevision(value)
		err = done.Close()
	} else if errors.Is(err, pebble.ErrNotFound) {
		err = nil
	}
	if err != nil {
		return false, err
	}
	if out.Author, err = r.past.author(r.tree, rev); err != nil {
		return false, err
	}
	return yield(out), nil
}
