package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Each watch has a stream of its own, with one goroutine that receives, beside that of the caller. Etcd could serve several over one, but it says
// how far a stream is only when all of its watches have caught up, and none of them waits for a later revision. So the reader of one watch, who asks
// for its progress, would wait for all others.
//
// Nor do watches of several prefixes share one watch of what is common to them: etcd would send each server what all others write, and to receive
// an event costs more than what is done with it.

// source is where the events of a watch come from.
type source interface {
	// receive puts what it is told into an inbox until ctx ends or the watch breaks off. It is called once. If the watch may begin again
	// at once, the error is a goneError.
	receive(ctx context.Context, to *inbox) error
	// ask has the progress of the watch told, if it has caught up.
	ask()
}

// askAfter is the interval at which etcd is asked for the progress of a watch
// that has an end. It answers only when the watch has caught up, and drops
// requests that come earlier.
const askAfter = 20 * time.Millisecond

// A watch whose server has gone begins again by itself, after pauses between these.
const firstPause, lastPause = 5 * time.Millisecond, 100 * time.Millisecond

// Watch is part of store.DB.
func (d *DB) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	if w.Until > 0 && w.From > w.Until {
		return nil // etcd would report nothing for a future revision
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		from := w.From
		again, err := d.watch(ctx, &w, deliver)
		if !again {
			return err
		}
		if w.From > from {
			pause = firstPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watch is Watch until the server has gone: then it says that the watch is to begin again, from w.From on.
func (d *DB) watch(ctx context.Context, w *kv.Watch, deliver kv.Deliver) (again bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := d.source(ctx, *w)
	if err != nil {
		return over(ctx, err)
	}
	in, ended := newInbox(), make(chan struct{})
	go func() {
		defer close(ended)
		in.end(from.receive(ctx, in))
	}()
	defer func() {
		cancel()
		select {
		case <-ended:
		case <-d.Broken(): // what is left of it may not end
		}
	}()
	var regularly <-chan time.Time
	if w.Until > 0 {
		t := time.NewTicker(askAfter)
		defer t.Stop()
		regularly = t.C
	}
	var spare []kv.Event
	for {
		select {
		case <-in.news:
		case <-w.Ask:
			from.ask()
			continue
		case <-regularly:
			from.ask()
			continue
		case <-d.Broken():
			return false, d.Err()
		case <-ctx.Done():
			return false, ctx.Err()
		}
		events, rev, failed := in.take(spare)
		if w.Prev {
			if err := d.addPrev(ctx, events); err != nil {
				return false, err
			}
		}
		if rev > 0 {
			if end, err := pass(events, rev, w, deliver); end || err != nil {
				return false, err
			}
		}
		if failed != nil {
			return over(ctx, failed)
		}
		spare = emptied(events)
	}
}

// addPrev reads what was there before, where etcd has left it out of a change. It does so in the first events of a watch if it has them before it
// has noted that the watch wants that. What is compacted stays out.
func (d *DB) addPrev(ctx context.Context, events []kv.Event) error {
	for n := range events {
		e := &events[n]
		if e.Created() || e.Prev.ModRevision > 0 {
			continue
		}
		r, err := d.get(ctx, string(e.Key), clientv3.WithRev(e.Revision()-1))
		switch err := translated(err); {
		case errors.Is(err, kv.ErrCompacted):
		case err != nil:
			return err
		case len(r.Kvs) > 0:
			e.Prev = keyValue(r.Kvs[0])
		}
	}
	return nil
}

// goneError says that the server of a watch has gone, not that it has refused the watch.
type goneError struct{ error }

// Unwrap is part of error.
func (e goneError) Unwrap() error { return e.error }

// over says what becomes of a watch whose source has ended with an error.
func over(ctx context.Context, err error) (again bool, _ error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return errors.As(err, new(goneError)), translated(err)
}

// pass delivers events that have come. It reports whether they were the last ones of the watch.
func pass(events []kv.Event, rev int64, w *kv.Watch, deliver kv.Deliver) (end bool, err error) {
	if end = w.Until > 0 && rev >= w.Until; end {
		rev = w.Until
		if n := slices.IndexFunc(events, func(e kv.Event) bool { return e.ModRevision > rev }); n >= 0 {
			events = events[:n]
		}
	}
	if err := deliver(events, rev); err != nil {
		return false, err
	}
	w.From = max(w.From, rev+1)
	return end, nil
}

// keepEvents is the capacity for events that a watch keeps between two batches.
const keepEvents = 16

// emptied makes room for other events of those that were delivered.
func emptied(events []kv.Event) []kv.Event {
	if clear(events); cap(events) > keepEvents {
		return nil
	}
	return events[:0]
}

// ends are the keys of a watch as etcd takes them: the first one, and the first after it that is none of it.
func ends(w kv.Watch) (key, end []byte) {
	key = []byte(w.Key)
	if w.Prefix {
		end = []byte(kv.PrefixEnd(w.Key))
	}
	if len(key) == 0 {
		key = []byte{0} // the smallest one
	}
	return key, end
}
