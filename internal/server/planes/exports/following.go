package exports

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// This file follows the log as a projection shows it.

const (
	// everything is the prefix of what belongs to planes: their objects, and the records.
	everything = "/kanzen/"
	// planesPrefix is where the objects of planes are, each below its UID.
	planesPrefix = everything + "planes/"
	// hides ends a key that says that the key before it is not that of the plane's base any more (store/layer).
	hides = "\x00"
)

// following is one watch of a projection.
type following struct {
	*projection
	watch   kv.Watch
	members map[types.UID]*record // that are in force
	out     []kv.Event            // of the batch
}

// Watch is part of store.DB.
func (p *projection) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	f := &following{projection: p, watch: w}
	if err := f.begin(ctx); err != nil {
		return err
	}
	own := kv.Watch{Key: everything, Prefix: true, From: w.From, Until: w.Until, Prev: w.Prev, Ask: w.Ask}
	return p.DB.Watch(ctx, own, func(events []kv.Event, rev int64) error {
		f.out = f.out[:0]
		for n := range events {
			if err := f.take(ctx, events, n); err != nil {
				return err
			}
		}
		slices.SortStableFunc(f.out, kv.CompareEvents)
		return deliver(f.out, rev)
	})
}

// begin reads which records were in force before the first event.
func (f *following) begin(ctx context.Context) error {
	head, err := f.DB.Head(ctx)
	if err != nil {
		return err
	}
	records, err := readRecords(ctx, f.DB, f.records, min(head, f.watch.From-1))
	if err != nil {
		return err
	}
	f.members = make(map[types.UID]*record, len(records))
	for uid, r := range records {
		f.members[types.UID(uid)] = r
	}
	return nil
}

// take takes one event of the log.
func (f *following) take(ctx context.Context, events []kv.Event, n int) error {
	e := &events[n]
	if rest, ok := bytes.CutPrefix(e.Key, []byte(planesPrefix)); ok {
		uid, below, _ := strings.Cut(string(rest), "/")
		if r := f.members[types.UID(uid)]; r != nil {
			return f.object(ctx, types.UID(uid), r, events, n, below)
		}
		return nil
	}
	if uid, ok := bytes.CutPrefix(e.Key, []byte(f.records)); ok {
		return f.member(ctx, types.UID(uid), e)
	}
	return nil
}

// object takes an event of a plane.
func (f *following) object(ctx context.Context, uid types.UID, r *record, events []kv.Event, n int, below string) error {
	kind := f.kindOf(viewPrefix + below)
	if kind == nil {
		return nil
	}
	e := events[n]
	below = strings.TrimPrefix(below, kind.prefix)
	if bare, ok := strings.CutSuffix(below, hides); ok {
		key := e.Key[:len(e.Key)-len(hides)]
		if slices.ContainsFunc(events, func(o kv.Event) bool { return o.ModRevision == e.ModRevision && bytes.Equal(o.Key, key) }) {
			return nil // it comes with the first change of what was in the base
		}
		below, e = bare, kv.Event{KeyValue: kv.KeyValue{Key: key, ModRevision: e.ModRevision}, Deleted: true}
	}
	if f.watch.Prev && e.Prev.ModRevision == 0 {
		// It may be that of the base, which the log does not have.
		if err := f.before(ctx, uid, &e); err != nil {
			return err
		}
	}
	return f.changed(ctx, kind, r, e, below)
}

// before reads what a plane had at a key before an event.
func (f *following) before(ctx context.Context, uid types.UID, e *kv.Event) error {
	db, _, err := f.planes.Log(ctx, uid)
	if err != nil {
		return err
	}
	_, err = db.Range(ctx, kv.Range{Key: string(e.Key), Rev: e.ModRevision - 1}, func(k kv.KeyValue) bool { e.Prev = k; return false })
	return err
}

// changed passes on a change of an object, which may have come into what is visible, or have left it.
func (f *following) changed(ctx context.Context, kind *projected, r *record, e kv.Event, below string) error {
	var prev kv.KeyValue
	had := false
	if e.Prev.ModRevision > 0 {
		var err error
		e.Prev.Key = e.Key
		if prev, had, err = f.seen(ctx, kind, r, e.Prev, below); err != nil {
			return err
		}
	}
	if !had {
		prev = kv.KeyValue{}
	}
	has := false
	if !e.Deleted {
		now, ok, err := f.seen(ctx, kind, r, e.KeyValue, below)
		if err != nil {
			return err
		}
		if has = ok; has {
			out := kv.Event{KeyValue: now, Prev: prev}
			if f.watch.Prev && !had {
				out.CreateRevision = out.ModRevision // it is new to the reader
			}
			f.pass(out)
		}
	}
	// Without what was before it is not known whether the reader has it. A store does nothing for one that it does not have.
	if !has && (had || !f.watch.Prev) {
		f.pass(kv.Event{KeyValue: kv.KeyValue{Key: kind.key(r.Plane, below), ModRevision: e.ModRevision}, Deleted: true, Prev: prev})
	}
	return nil
}

// pass passes an event on if it is asked for.
func (f *following) pass(e kv.Event) {
	if key := string(e.Key); key == f.watch.Key || f.watch.Prefix && strings.HasPrefix(key, f.watch.Key) {
		f.out = append(f.out, e)
	}
}

// member takes a change of a record: what it shows of the plane comes, and what it does not show any more goes.
func (f *following) member(ctx context.Context, uid types.UID, e *kv.Event) error {
	was, now := f.members[uid], (*record)(nil)
	if !e.Deleted {
		now = &record{}
		if err := json.Unmarshal(e.Value, now); err != nil {
			return err
		}
	}
	for n := range f.kinds {
		kind := &f.kinds[n]
		before, err := f.shown(ctx, kind, uid, was, e.ModRevision-1)
		if err != nil {
			return err
		}
		after, err := f.shown(ctx, kind, uid, now, e.ModRevision)
		if err != nil {
			return err
		}
		for key, k := range before {
			if _, stays := after[key]; !stays {
				gone := kv.Event{KeyValue: kv.KeyValue{Key: []byte(key), ModRevision: e.ModRevision}, Deleted: true}
				if f.watch.Prev {
					gone.Prev = k
				}
				f.pass(gone)
			}
		}
		for key, k := range after {
			if _, was := before[key]; !was {
				f.pass(kv.Event{KeyValue: k, At: e.ModRevision})
			}
		}
	}
	if delete(f.members, uid); now != nil {
		f.members[uid] = now
	}
	return nil
}

// shown returns what a record (nil: none) shows of a plane at a revision, by key.
func (f *following) shown(ctx context.Context, kind *projected, uid types.UID, r *record, rev int64) (map[string]kv.KeyValue, error) {
	all := map[string]kv.KeyValue{}
	if r == nil {
		return all, nil
	}
	return all, f.ofPlane(ctx, kind, uid, r, rev, func(k kv.KeyValue) { all[string(k.Key)] = k })
}
