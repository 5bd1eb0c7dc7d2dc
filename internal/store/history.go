package store

import (
	"context"
	"errors"

	"github.com/tidwall/btree"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Bounds of the history that watchers may hold in memory. A stretch ends early
// when it has become large; its watcher asks for the next one once it has
// delivered it. A reader cannot limit how much etcd sends at a time: up to
// etcdRevisions revisions, whatever their size. Their size is estimated, and
// the sum of the estimates bounds how many stretches are read at a time.
const (
	historyBytes   = 1 << 20
	historiesBytes = 64 << 20
	maxHistories   = 128
	etcdRevisions  = 1000
)

// sent estimates the bytes that etcd sends at a time for n revisions of a view
// whose objects have size bytes.
func sent(n, size int64) int64 {
	return min(max(2*size*min(n, etcdRevisions), historiesBytes/maxHistories), historiesBytes)
}

// stretch is a piece of etcd's history that is read for one watcher: events
// after the watcher's revision, and the revision up to which they are complete.
type stretch struct {
	events []*Event
	rev    int64
	err    error
}

// history is a stretch that is being read.
type history struct {
	cancel context.CancelFunc
	out    chan stretch // gets exactly one stretch
}

// startHistory begins to read a stretch of history.
func (w *Watcher) startHistory(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	h := &history{cancel: cancel, out: make(chan stretch, 1)}
	after := w.rev
	started := w.view.store.tasks.start(func(running context.Context) {
		defer context.AfterFunc(running, cancel)()
		h.out <- w.view.past(ctx, w.opts, after)
		w.signal()
	})
	if !started {
		cancel()
		return context.Canceled
	}
	w.history = h
	return nil
}

// pollHistory returns the stretch if it has been read. Events that came
// meanwhile are in the window, or in the next stretch.
func (w *Watcher) pollHistory() ([]*Event, error) {
	select {
	case s := <-w.history.out:
		w.history.cancel()
		w.history = nil
		if s.err != nil {
			return nil, s.err
		}
		w.rev = max(w.rev, s.rev)
		// The view may be behind the stretch. Events of the stretch that reach
		// the view later must not be delivered again.
		w.floor = w.rev
		w.view.mu.Lock()
		defer w.view.mu.Unlock()
		w.place()
		return s.events, nil
	default:
		return nil, nil
	}
}

// past reads a stretch, and begins again when the connection to etcd breaks.
func (v *View) past(ctx context.Context, o WatchOptions, after int64) stretch {
	for {
		s := v.pastOnce(ctx, o, after)
		switch {
		case ctx.Err() != nil:
			return stretch{err: ctx.Err()}
		case s.err == nil, errors.Is(s.err, ErrCompacted), errors.Is(s.err, ErrForgotten):
			return s
		}
		v.store.log.Warn("reading etcd's history broke off, beginning again", "view", v.kind.Prefix, "error", s.err)
		select {
		case <-v.store.clock.After(retryAfter):
		case <-ctx.Done():
		}
	}
}

// errEnough ends the reading of a stretch that has become large.
var errEnough = errors.New("the stretch is large enough")

func (v *View) pastOnce(ctx context.Context, o WatchOptions, after int64) stretch {
	// The view must be loaded, so that its window has the events that follow
	// the stretch.
	if err := v.lockLoaded(ctx); err != nil {
		return stretch{err: err}
	}
	now, size := v.items.Copy(), v.bytes/int64(max(v.items.Len(), 1))
	v.mu.Unlock()
	head, err := v.store.db.Head(ctx)
	if err != nil || after >= head {
		return stretch{rev: after, err: err}
	}
	n := sent(head-after, size)
	if err := v.store.histories.Acquire(ctx, n); err != nil {
		return stretch{err: err}
	}
	defer v.store.histories.Release(n)
	s := stretch{rev: after}
	bytes := 0
	watch := kv.Watch{Key: v.etcdPrefix + o.Prefix, Prefix: !o.Exact, From: after + 1, Until: head, Prev: true}
	deliver := func(events []kv.Event, rev int64) error {
		for n := range events {
			if bytes >= historyBytes && events[n].Revision() > s.rev {
				return errEnough // etcd's batches may be larger
			}
			e, err := v.pastEvent(ctx, now, &events[n])
			if err != nil {
				return err
			}
			s.events, s.rev = append(s.events, e), e.Rev
			bytes += e.size()
		}
		s.rev = rev
		if bytes >= historyBytes {
			return errEnough
		}
		return nil
	}
	if err = v.store.db.Watch(ctx, watch, deliver); o.Beyond && v.store.beyond != nil && errors.Is(err, ErrCompacted) && s.rev == after {
		err = v.store.beyond.Watch(ctx, watch, deliver)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return stretch{err: err}
	}
	return s
}

// pastEvent makes an event of this view from an event of etcd's history. After
// a restart many watchers may read the same stretch: they share its items.
func (v *View) pastEvent(ctx context.Context, now *btree.Map[string, *Item], e *kv.Event) (*Event, error) {
	ev := &Event{Rev: e.Revision()}
	if !e.Deleted {
		ev.Item = v.shared(ctx, now, e.KeyValue)
	}
	if e.Prev.ModRevision > 0 {
		ev.Prev = v.shared(ctx, now, e.Prev)
	} else if !e.Created() {
		return nil, ErrCompacted // the value before the change is compacted
	}
	return ev, nil
}
