package memory

import (
	"context"
	"errors"
	"sort"
	"strings"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// ErrBroken ends watches when Break is called.
var ErrBroken = errors.New("the watch was broken off")

// Break ends all watches that are under way, as a lost connection does.
func (d *DB) Break() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.broken)
	d.broken = make(chan struct{})
}

// Watch is part of store.DB. It always reports its progress at once, so it
// ignores w.Ask.
func (d *DB) Watch(ctx context.Context, w kv.Watch, deliver kv.Deliver) error {
	var broken chan struct{}
	if err := d.do(ctx, Watch, func() error { broken = d.broken; return nil }); err != nil {
		return err
	}
	var batch []kv.Event
	for next := w.From; w.Until == 0 || next <= w.Until; {
		events, rev, changed, err := d.since(next)
		if err != nil {
			return err
		}
		if rev >= next {
			if w.Until > 0 {
				rev = min(rev, w.Until)
			}
			batch = wanted(batch[:0], events, w, rev)
			if err := deliver(batch, rev); err != nil {
				return err
			}
			clear(batch)
			next = rev + 1
			changed = nil // there may be more
		}
		if err := pause(ctx, changed, broken); err != nil {
			return err
		}
	}
	return nil
}

// pause waits for a change, unless changed is nil. It returns an error if the
// watch has to end.
func pause(ctx context.Context, changed, broken <-chan struct{}) error {
	if changed == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-broken:
			return ErrBroken
		default:
			return nil
		}
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-broken:
		return ErrBroken
	}
}

// batchRevisions is how many revisions are delivered at a time.
const batchRevisions = 1000

// since returns the events from revision next up to revision rev, and a channel
// that is closed when there are more.
func (d *DB) since(next int64) (events []event, rev int64, changed <-chan struct{}, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if next < d.compacted {
		return nil, 0, nil, kv.ErrCompacted
	}
	rev = min(d.rev, next+batchRevisions-1)
	return d.events[d.index(next):d.index(rev+1)], rev, d.changed, nil
}

// index is the place of the first event at revision rev or later.
func (d *DB) index(rev int64) int {
	return sort.Search(len(d.events), func(n int) bool { return d.events[n].ModRevision >= rev })
}

// wanted appends the events up to revision rev that a watch asks for.
func wanted(to []kv.Event, events []event, w kv.Watch, rev int64) []kv.Event {
	for n := range events {
		e := &events[n]
		if e.ModRevision > rev {
			break
		}
		if key := string(e.Key); key != w.Key && !(w.Prefix && strings.HasPrefix(key, w.Key)) {
			continue
		}
		out := kv.Event{KeyValue: e.KeyValue, Deleted: e.deleted}
		if w.Prev {
			out.Prev = e.prev
		}
		to = append(to, out)
	}
	return to
}
