package store

import (
	"context"
	"slices"
	"strings"
)

// WatchOptions say which events a Watcher is given.
type WatchOptions struct {
	// After is the revision after which to begin.
	After int64
	// Beyond has the watcher go on where the log has forgotten what was.
	Beyond bool
	// Prefix of the keys: "" for all, "namespace/" for a namespace, or one
	// object's whole key with Exact.
	Prefix string
	Exact  bool
	// Namespaces restricts wake-ups to events of some namespaces; nil: there is no such restriction. As with Triggers, the
	// reader must select itself: history has others.
	Namespaces []string
	// Triggers restrict wake-ups to events whose object has (or had) one of these
	// values in the kind's Trigger field; none: there is no such restriction. The
	// watcher may still get others, so its reader must select itself.
	Triggers []string
	// Wake is called when Poll may have something, instead of Ready being readable. It must not block. Optional.
	Wake func()
}

// Watcher delivers the events of one view after some revision, in order. It
// holds a place in the view's window, not a queue of its own: however many
// watchers there are, an event is kept once. A watcher that falls behind the
// window gets events from etcd's history until it has caught up with the
// window. A Watcher is used by one goroutine, which closes it.
type Watcher struct {
	view *View
	opts WatchOptions
	// rev is the revision up to which all events were delivered.
	rev int64
	// floor is the revision up to which this watcher skips the window's events:
	// they are before its start, or were delivered from history.
	floor int64
	// history feeds a watcher that is behind the window.
	history *history
	batch   []*Event // what Poll returned last

	wake chan struct{} // a token: there is something to look at; nil: Wake is called

	// Guarded by view.mu:
	groups  []group // the wake-up groups it is in
	pending bool    // events from next on were not looked at yet
	next    uint64
}

// Watch starts a watcher. If o.After is compacted, the first Poll returns the
// error.
func (v *View) Watch(ctx context.Context, o WatchOptions) (*Watcher, error) {
	if o.Namespaces != nil {
		o.Namespaces = append([]string{}, o.Namespaces...) // not nil, even if there are none
		slices.Sort(o.Namespaces)
	}
	if err := v.lockLoaded(ctx); err != nil {
		return nil, err
	}
	defer v.mu.Unlock()
	w := &Watcher{view: v, opts: o, rev: o.After, floor: o.After, groups: groupsOf(o)}
	if o.Wake == nil {
		w.wake = make(chan struct{}, 1)
	}
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
	if w.opts.Wake != nil {
		w.opts.Wake()
		return
	}
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

// pollBytes bounds the memory that the events of one Poll hold: a reader with a
// slow client keeps no more than that from being freed.
const pollBytes = 256 << 10

// smallBatch is the capacity for events that an idle watcher keeps.
const smallBatch = 8

// Poll returns the next events, which may be none; it does not block. Call it
// again until it returns none. The slice is valid until the next call.
// Afterwards Rev returns the revision that the watcher has reached. Reading
// history stops when ctx ends. After an error the watcher can only be closed.
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
		// A view that is not loaded has no window.
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
		// The rest is for the next call, even if the watcher was woken for
		// later events since.
		v.mu.Lock()
		w.pending, w.next = true, next+uint64(n)
		v.mu.Unlock()
		w.signal()
	}
	w.rev = max(w.rev, passed)
	return w.batch, nil
}

// take puts the events that the watcher wants into the batch, up to the bound
// of a batch but only whole revisions. It returns how many events it has looked
// at.
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
	if w.opts.Namespaces != nil {
		_, ok := slices.BinarySearch(w.opts.Namespaces, namespaceOf(e.Key()))
		return ok
	}
	return strings.HasPrefix(e.Key(), w.opts.Prefix)
}
