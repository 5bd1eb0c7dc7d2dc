package past

import (
	"context"
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Forget drops all that is known of a key, below the prefix, but what it is now: it is as if it had been created by its last change. It returns
// whether there was anything. The bytes leave the disk when the tree next compacts them, which Forget asks for.
func (p *Past) Forget(ctx context.Context, key string) (found bool, err error) {
	kind := kindOf(key)
	if kind == "" {
		return false, nil
	}
	var now *kv.KeyValue
	answer, err := p.Log.Range(ctx, kv.Range{Key: p.Prefix + key}, func(k kv.KeyValue) bool {
		now = &k
		return false
	})
	if err != nil {
		return false, err
	}
	if err := p.Reach(ctx, answer.Rev); err != nil {
		return false, err
	}
	done, err := p.use()
	if err != nil {
		return false, err
	}
	defer done()
	defer p.broken.Recover(&err)
	places, err := p.forget(kind, strings.TrimPrefix(key, kind), now)
	for _, place := range places {
		if err == nil {
			err = p.tree.Compact(ctx, place, end(place), false)
		}
	}
	return len(places) > 0, errors.Join(err, p.tree.Flush())
}

// forget drops the changes of a key from all segments that have some, and returns the beginnings of their keys.
func (p *Past) forget(kind, name string, now *kv.KeyValue) (places [][]byte, err error) {
	b := p.tree.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.kinds[kind]
	if k == nil {
		return nil, nil
	}
	rev := int64(0)
	if now != nil {
		rev = now.ModRevision
	}
	r := recording{Past: p, batch: b}
	for n := range k.segments {
		s := &k.segments[n]
		place := segmentKey(changeSpace, kind, s.number)
		known, err := r.knows(place, name)
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		ms, err := p.timeOf(appendChange(place, name, rev))
		if err != nil {
			return nil, err
		}
		changes := append(append(place[:len(place):len(place)], name...), 0)
		places = append(places, changes)
		if err := b.DeleteRange(changes, end(changes), nil); err != nil {
			return nil, err
		}
		r.set(appendChange(place, name, 0), appendEntry(nil, before|deleted, 0))
		if now != nil && s.first <= rev && rev <= s.last {
			r.set(appendChange(place, name, rev), append(appendEntry(nil, created|whole, ms), now.Value...))
		}
	}
	p.recent.delete(kind + name)
	p.recent.marks.delete(kind + name) // the next change must not refer to what was dropped
	if r.err != nil {
		return nil, r.err
	}
	return places, b.Commit(pebble.NoSync)
}

// knows says whether a segment has something about a key.
func (r *recording) knows(place []byte, name string) (bool, error) {
	lower := append(append(place[:len(place):len(place)], name...), 0)
	it, err := r.tree.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: end(lower)})
	if err != nil {
		return false, err
	}
	known := it.First()
	return known, errors.Join(it.Error(), it.Close())
}

// timeOf returns when a change came, in milliseconds; 0: there is no such change.
func (p *Past) timeOf(change []byte) (ms int64, err error) {
	value, done, err := p.tree.Get(change)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	_, ms, _, err = ofEntry(value)
	return ms, errors.Join(err, done.Close())
}
