package layer

import (
	"bytes"
	"context"
	"slices"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Watch is part of store.DB.
func (d *DB) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	if w.Prefix {
		return d.DB.Watch(ctx, w, func(events []kv.Event, rev int64) error { return deliver(d.seen(events, w.Prev), rev) })
	}
	if d.find(w.Key) < 0 {
		return d.DB.Watch(ctx, w, deliver)
	}
	key := []byte(w.Key)
	w.Prefix = true
	return d.DB.Watch(ctx, w, func(events []kv.Event, rev int64) error {
		events = slices.DeleteFunc(d.seen(events, w.Prev), func(e kv.Event) bool { return !bytes.Equal(e.Key, key) })
		return deliver(events, rev)
	})
}

// seen returns events as they are with the base: a mark comes with the first change of a key, or it is its deletion.
func (d *DB) seen(events []kv.Event, prev bool) []kv.Event {
	marks := func(e kv.Event) bool { return d.hides(e.Key) >= 0 }
	if !slices.ContainsFunc(events, marks) {
		return events
	}
	out := make([]kv.Event, 0, len(events))
	for _, e := range events {
		n := d.hides(e.Key)
		if n < 0 {
			out = append(out, e)
			continue
		}
		if !slices.ContainsFunc(events, func(o kv.Event) bool { return o.ModRevision == e.ModRevision && string(o.Key) == d.key(n) }) {
			gone := kv.Event{KeyValue: kv.KeyValue{Key: []byte(d.key(n)), ModRevision: e.ModRevision}, Deleted: true}
			if prev {
				gone.Prev = d.keyValue(n)
			}
			out = append(out, gone)
			continue
		}
	}
	for i := range out {
		e := &out[i]
		n := d.find(string(e.Key))
		if n < 0 || e.Deleted || !e.Created() || !slices.ContainsFunc(events, func(o kv.Event) bool { return o.ModRevision == e.ModRevision && d.hides(o.Key) == n }) {
			continue
		}
		e.CreateRevision, e.Version = Since, 2
		if prev {
			e.Prev = d.keyValue(n)
		}
	}
	return out
}
