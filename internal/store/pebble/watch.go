package pebble

import (
	"context"
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Bounds of what a watch delivers at a time.
const (
	deliverRevisions = 1000
	deliverBytes     = 4 << 20
)

// Watch is part of store.DB. It always reports its progress at once, so it ignores w.Ask.
func (d *DB) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	var batch []kv.Event
	for next := w.From; w.Until == 0 || next <= w.Until; {
		var rev int64
		var changed <-chan struct{}
		var err error
		if batch, rev, changed, err = d.read(ctx, batch[:0], w, next); err != nil {
			return err
		}
		if rev < next {
			if err := d.pause(ctx, changed); err != nil {
				return err
			}
			continue
		}
		if err := deliver(batch, rev); err != nil {
			return err
		}
		clear(batch)
		next = rev + 1
	}
	return nil
}

// read appends the next events that a watch asks for. It returns the revision up to which they are complete; without new ones, a channel that
// is closed when there may be some.
func (d *DB) read(ctx context.Context, to []kv.Event, w kv.Watch, next int64) (_ []kv.Event, rev int64, changed <-chan struct{}, err error) {
	done, err := d.use(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	defer done()
	defer d.broken.Recover(&err)
	events, rev, changed, err := d.since(ctx, next)
	if err != nil || rev < next {
		return to, rev, changed, err
	}
	if w.Until > 0 {
		rev = min(rev, w.Until)
	}
	to, err = d.wanted(to, events, w, rev)
	return to, rev, changed, err
}

// pause waits for a change.
func (d *DB) pause(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.closing:
		return errClosed
	case <-d.broken.Happened:
		return d.broken.Err()
	}
}

// since returns the changes of all keys from a revision on, and the revision up to which they are complete.
func (d *DB) since(ctx context.Context, next int64) (events []kv.Event, rev int64, changed <-chan struct{}, err error) {
	events, rev, changed, old := d.tail.since(next)
	if old {
		events, rev, err = d.history(ctx, next, rev)
	}
	if next < d.compacted.Load() {
		return nil, 0, nil, kv.ErrCompacted
	}
	if len(events) > deliverRevisions { // at the end of a revision
		end := deliverRevisions
		for end < len(events) && events[end].ModRevision == events[end-1].ModRevision {
			end++
		}
		if end < len(events) {
			events, rev = events[:end], events[end-1].ModRevision
		}
	}
	return events, rev, changed, err
}

// history reads some of the changes from a revision on, up to head.
func (d *DB) history(ctx context.Context, next, head int64) (events []kv.Event, rev int64, err error) {
	it, err := d.tree.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: revisionKey(next), UpperBound: revisionKey(head + 1)})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = firstError(err, it.Close()) }()
	rev = head
	for valid, n, bytes := it.First(), 0, 0; valid; valid, n = it.Next(), n+1 {
		if n == deliverRevisions || bytes > deliverBytes {
			return events, ofRevision(it.Key()) - 1, nil
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, 0, err
		}
		was := len(events)
		if events, err = d.changesAt(events, ofRevision(it.Key()), value); err != nil {
			return nil, 0, err
		}
		for n := was; n < len(events); n++ {
			bytes += size(&events[n])
		}
	}
	return events, rev, it.Error()
}

// changesAt appends the changes of one revision, whose value in the history is given.
func (d *DB) changesAt(to []kv.Event, rev int64, value []byte) ([]kv.Event, error) {
	changes, err := changesOf(value)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		e := kv.Event{Deleted: c.deleted, KeyValue: kv.KeyValue{Key: []byte(string(c.key)), ModRevision: rev}}
		if !c.deleted {
			b, done, err := d.tree.Get(recordKey(c.key, rev))
			if errors.Is(err, pebble.ErrNotFound) {
				return nil, kv.ErrCompacted
			}
			if err != nil {
				return nil, err
			}
			r, err := recordOf(rev, b)
			if err == nil {
				e.KeyValue = r.keyValue(e.Key)
			}
			if err := firstError(err, done.Close()); err != nil {
				return nil, err
			}
		}
		to = append(to, e)
	}
	return to, nil
}

// wanted appends the events up to revision rev that a watch asks for.
func (d *DB) wanted(to, events []kv.Event, w kv.Watch, rev int64) ([]kv.Event, error) {
	for n := range events {
		e := events[n]
		if e.ModRevision > rev {
			break
		}
		if key := string(e.Key); key != w.Key && !(w.Prefix && strings.HasPrefix(key, w.Key)) {
			continue
		}
		if w.Prev {
			var err error
			if e.Prev, err = d.before(e.Key, e.ModRevision); err != nil {
				return nil, err
			}
		}
		to = append(to, e)
	}
	return to, nil
}

// before is a key before its change at a revision; its revisions are 0 if it did not exist, or if that is compacted.
func (d *DB) before(key []byte, rev int64) (kv.KeyValue, error) {
	var was kv.KeyValue
	if rev <= d.compacted.Load() {
		return was, nil
	}
	it, err := d.tree.NewIter(bounds(kv.Range{Key: string(key)}))
	if err != nil {
		return was, err
	}
	s := scan{it: it, rev: rev - 1, yield: func(k kv.KeyValue) bool { was = k; return false }}
	err = firstError(s.run(context.Background()), it.Close())
	if rev <= d.compacted.Load() {
		was = kv.KeyValue{}
	}
	return was, err
}
