package store

import (
	"context"
	"strings"
)

// WatchOptions say which events a Watcher is given.
type WatchOptions struct {
	// After is the revision after which to begin.
	After int64
	// Prefix of the keys: "" for all, "namespace/" for a namespace, or one
	// object's whole key with Exact.
	Prefix string
	Exact  bool
	// Trigger restricts wake-ups to events whose object has (or had) this
	// value in the kind's Trigger field. The watcher may still be given
	// others and must select for itself.
	Trigger string
}

// Watcher delivers the events of one view after some revision, in order. It
// holds a place in the view's window, not a queue of its own: however many
// watchers there are, an event is kept once. One that falls out of the window
// is fed from etcd's history until it is in it again. A Watcher is used by one
// goroutine, which closes it.
type Watcher struct {
	view *View
	opts WatchOptions
	// rev is the revision up to which everything was delivered.
	rev int64
	// floor is the revision up to which the window's events are not for this
	// watcher: those before its beginning, or delivered from history.
	floor int64
	// history feeds a watcher that is behind the window.
	history *history
	batch   []*Event // what Poll has returned last

	wake chan struct{} // a token: there is something to look at

	// Guarded by view.mu:
	group   string // the wake-up group it is in
	pending bool   // events from next on have not been looked at
	next    uint64
}

// Watch begins a watcher. That o.After is compacted is for Poll to find out.
func (v *View) Watch(ctx context.Context, o WatchOptions) (*Watcher, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return nil, err
	}
	defer v.mu.Unlock()
	w := &Watcher{view: v, opts: o, rev: o.After, floor: o.After, group: groupOf(o), wake: make(chan struct{}, 1)}
	v.watchers.add(w)
	w.place()
	return w, nil
}

// behind is a sequence number that no window has.
const behind = 0

// place finds the watcher's position in the window. View.mu is held.
func (w *Watcher) place() {
	win := &w.view.window
	w.pending = true
	w.next = win.after(w.rev)
	if w.rev < win.start || w.view.state != loaded {
		w.next = behind
	}
	w.signal()
}

func (w *Watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Close ends the watcher.
func (w *Watcher) Close() {
	if w.history != nil {
		w.history.cancel()
	}
	w.view.mu.Lock()
	defer w.view.mu.Unlock()
	w.view.watchers.remove(w)
}

// Rev is the revision up to which the watcher has delivered everything.
func (w *Watcher) Rev() int64 { return w.rev }

// Ready is readable when Poll may have something.
func (w *Watcher) Ready() <-chan struct{} { return w.wake }

// pollBytes bounds what Poll returns at a time, by what its events keep in
// memory: a reader that is held up by a slow client keeps no more of the past
// from going than that.
const pollBytes = 256 << 10

// smallBatch is how many events a watcher keeps room for while it is idle.
const smallBatch = 8

// Poll returns the next events, which may be none; it does not block. It is to
// be called again until there are none. They are the caller's until the next
// call. Rev then says how far the watcher is. History that has to be read for
// it is read until ctx ends. After an error the watcher is of no more use.
func (w *Watcher) Poll(ctx context.Context) ([]*Event, error) {
	if cap(w.batch) > smallBatch {
		w.batch = nil
	}
	clear(w.batch)
	w.batch = w.batch[:0]
	if w.history != nil {
		return w.pollHistory()
	}
	v := w.view
	v.mu.Lock()
	state, passed := v.state, v.passedLocked()
	var events []*Event
	next, have := w.next, true
	if w.pending {
		// A view that is not loaded has no window for anyone.
		events, have = v.window.since(next)
		w.pending = !have
	}
	v.mu.Unlock()
	if state == forgotten {
		if len(events) == 0 {
			return nil, ErrForgotten
		}
		passed = events[len(events)-1].Rev
		w.signal()
	}
	if !have {
		return nil, w.startHistory(ctx)
	}
	if n := w.take(events); n < len(events) {
		passed = events[n-1].Rev
		// The others are for the next call, whatever has woken the watcher since.
		v.mu.Lock()
		w.pending, w.next = true, next+uint64(n)
		v.mu.Unlock()
		w.signal()
	}
	w.rev = max(w.rev, passed)
	return w.batch, nil
}

// take puts into the batch what the watcher wants of events, as much as one
// batch may have but whole revisions, and returns how many it has looked at.
func (w *Watcher) take(events []*Event) int {
	bytes := 0
	for n, e := range events {
		if bytes >= pollBytes && e.Rev != events[n-1].Rev {
			return n
		}
		if w.wants(e) {
			w.batch = append(w.batch, e)
			bytes += e.size()
		}
	}
	return len(events)
}

func (w *Watcher) wants(e *Event) bool {
	if e.Rev <= w.floor {
		return false
	}
	if w.opts.Exact {
		return e.Key() == w.opts.Prefix
	}
	return strings.HasPrefix(e.Key(), w.opts.Prefix)
}
