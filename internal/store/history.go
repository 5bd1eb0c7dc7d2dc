package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

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

// since returns what a stretch says to who has seen everything up to a revision. Events are shared, their list is not.
func (s stretch) since(after int64) stretch {
	n, _ := slices.BinarySearchFunc(s.events, after+1, func(e *Event, rev int64) int { return cmp.Compare(e.Rev, rev) })
	return stretch{events: slices.Clone(s.events[n:]), rev: max(s.rev, after), err: s.err}
}

// pastReadings are the stretches of a view that are being read, each for all watchers whom it serves: after a server has stopped, or a control plane
// has moved, all that it had come at once, and etcd looks at everything between their revisions and now for each reading anew.
type pastReadings struct {
	mu  sync.Mutex
	all []*pastReading // guarded by mu
}

// pastReading is a stretch that is being read.
type pastReading struct {
	of      pastKeys
	after   int64
	cancel  context.CancelFunc
	readers int           // that wait for it; guarded by pastReadings.mu
	done    chan struct{} // closed when stretch is there
	stretch stretch
}

// pastKeys is what is read.
type pastKeys struct {
	prefix        string
	exact, beyond bool
}

// join returns a reading that serves a watcher, which must leave it. It is begun if there is none, or with alone; nil: the store has stopped.
func (v *View) join(o WatchOptions, after int64, alone bool) *pastReading {
	of := pastKeys{o.Prefix, o.Exact, o.Beyond}
	v.readings.mu.Lock()
	defer v.readings.mu.Unlock()
	if !alone {
		for _, r := range v.readings.all {
			if r.of == of && r.after <= after {
				r.readers++
				return r
			}
		}
	}
	r := &pastReading{of: of, after: after, readers: 1, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(v.store.tasks.ctx)
	r.cancel = cancel
	started := v.store.tasks.start(func(context.Context) {
		defer close(r.done)
		defer v.ends(r)
		r.stretch = v.pastFor(ctx, o, after)
	})
	if !started {
		cancel()
		return nil
	}
	v.readings.all = append(v.readings.all, r)
	return r
}

// ends has nobody join a reading any more.
func (v *View) ends(r *pastReading) {
	v.readings.mu.Lock()
	defer v.readings.mu.Unlock()
	v.readings.all = slices.DeleteFunc(v.readings.all, func(other *pastReading) bool { return other == r })
}

// leave ends a reading for which nobody waits any more.
func (v *View) leave(r *pastReading) {
	v.readings.mu.Lock()
	defer v.readings.mu.Unlock()
	if r.readers--; r.readers == 0 {
		r.cancel()
		v.readings.all = slices.DeleteFunc(v.readings.all, func(other *pastReading) bool { return other == r })
	}
}

// past reads a stretch, together with others who need the same.
func (v *View) past(ctx context.Context, o WatchOptions, after int64) stretch {
	for alone := false; ; alone = true {
		r := v.join(o, after, alone)
		if r == nil {
			return stretch{err: context.Canceled}
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			v.leave(r)
			return stretch{err: ctx.Err()}
		}
		v.leave(r)
		switch {
		case r.after == after:
			return r.stretch.since(after)
		case r.stretch.err == nil && r.stretch.rev > after:
			return r.stretch.since(after)
		}
		// It began too long ago: what was lost before does not concern this one, and nobody may be kept from what is newer by others who
		// read what is old.
	}
}

// pastFor reads a stretch, and begins again when the connection to etcd breaks.
func (v *View) pastFor(ctx context.Context, o WatchOptions, after int64) stretch {
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
