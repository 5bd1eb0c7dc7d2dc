package etcd

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// askAfter is the interval at which etcd is asked for the progress of a watch
// that has an end. It answers only when the watch has caught up, and drops
// requests that come earlier.
const askAfter = 20 * time.Millisecond

// Watch is part of store.DB.
func (d *DB) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	if w.Until > 0 && w.From > w.Until {
		return nil // etcd would report nothing for a future revision
	}
	// The watch gets a stream of its own, because etcd reports progress only
	// when all watches of a stream have caught up. The client picks streams by
	// their metadata.
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx),
		"kanzen-watch", strconv.FormatUint(d.streams.Add(1), 10)))
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	opts := []clientv3.OpOption{clientv3.WithRev(w.From)}
	if w.Prefix {
		opts = append(opts, clientv3.WithPrefix())
	}
	if w.Prev {
		opts = append(opts, clientv3.WithPrevKV())
	}
	watch := d.Client.Watch(ctx, w.Key, opts...)
	asking.Go(func() { d.ask(ctx, w) })
	var batch []kv.Event
	for r := range watch {
		if err := r.Err(); err != nil {
			return translated(err)
		}
		rev, ok := told(&r)
		if !ok {
			continue
		}
		end := w.Until > 0 && rev >= w.Until
		if end {
			rev = w.Until
		}
		batch = appendEvents(batch[:0], r.Events, rev)
		err := deliver(batch, rev)
		if err != nil || end {
			return err
		}
		if clear(batch); cap(batch) > keepEvents {
			batch = nil
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.New("watch channel closed")
}

// keepEvents is the capacity for events that a watch keeps between two batches.
const keepEvents = 64

// ask requests the progress of a watch from etcd whenever a caller wants it.
// After a failure, a caller that still waits asks again.
func (d *DB) ask(ctx context.Context, w kv.Watch) {
	var regularly <-chan time.Time
	if w.Until > 0 {
		t := time.NewTicker(askAfter)
		defer t.Stop()
		regularly = t.C
	}
	for {
		select {
		case <-regularly:
		case <-w.Ask:
		case <-ctx.Done():
			return
		}
		_ = d.Client.RequestProgress(ctx)
	}
}

// told returns the revision up to which a watch has delivered everything with
// r, if r says so. The header of a progress notification does; the header of a
// batch of events may be ahead of the events.
func told(r *clientv3.WatchResponse) (int64, bool) {
	if n := len(r.Events); n > 0 {
		return r.Events[n-1].Kv.ModRevision, true
	}
	return r.Header.Revision, r.IsProgressNotify()
}

// appendEvents appends the events up to revision until.
func appendEvents(to []kv.Event, events []*clientv3.Event, until int64) []kv.Event {
	for _, e := range events {
		if e.Kv.ModRevision > until {
			break
		}
		out := kv.Event{KeyValue: keyValue(e.Kv), Deleted: e.Type == clientv3.EventTypeDelete}
		if e.PrevKv != nil {
			out.Prev = keyValue(e.PrevKv)
		}
		to = append(to, out)
	}
	return to
}
