package store

import (
	"context"
	"slices"
	"sort"
	"sync/atomic"
	"time"
)

// Event is one change of one object.
type Event struct {
	Rev  int64
	Item *Item // the object after the change; nil: it was deleted
	Prev *Item // the object before it; nil: it was created

	at   time.Time
	gone atomic.Pointer[Item]
}

// Key is the key of the object that changed.
func (e *Event) Key() string {
	if e.Item != nil {
		return e.Item.Key
	}
	return e.Prev.Key
}

// Gone is the object as it was before the change, at the revision of the
// change. A watcher gets it when the object is deleted or no longer matches its
// selector.
func (e *Event) Gone() *Item {
	if g := e.gone.Load(); g != nil {
		return g
	}
	g := e.Prev.Gone(e.Rev)
	if e.gone.CompareAndSwap(nil, g) {
		return g
	}
	return e.gone.Load()
}

// eventBytes is the overhead of an event beside its objects.
const eventBytes = 256

func (e *Event) size() int {
	n := eventBytes
	if e.Item != nil {
		n += e.Item.Size()
	}
	if e.Prev != nil {
		n += e.Prev.Size()
	}
	return n
}

// Bounds of one view's window. Older events can still be read from etcd, until
// compaction; the window only makes recent events cheap.
const (
	windowBytes = 8 << 20
	windowAge   = 3 * time.Minute
)

// window is the recent events of one view, oldest first. Slices of it handed
// out stay valid: entries are appended and cut off, never overwritten.
type window struct {
	limit int // of bytes
	// start is the revision after which the window is complete.
	start  int64
	events []*Event
	bytes  int
	dead   int // events cut off that the array behind events still holds
	// first is the sequence number of events[0]; numbers begin at 1 and never
	// repeat.
	first uint64
}

func (w *window) next() uint64 { return w.first + uint64(len(w.events)) }

func (w *window) append(e *Event) {
	w.events = append(w.events, e)
	w.bytes += e.size()
	w.cut(e.at, 1)
}

// cut drops events beyond the bounds of size and age, but not the last keep
// events.
func (w *window) cut(now time.Time, keep int) {
	cut := 0
	for cut < len(w.events)-keep && (w.bytes > w.limit || now.Sub(w.events[cut].at) > windowAge) {
		w.bytes -= w.events[cut].size()
		cut++
	}
	// Events of one revision stay or go together.
	for cut > 0 && cut < len(w.events) && w.events[cut].Rev == w.events[cut-1].Rev {
		w.bytes -= w.events[cut].size()
		cut++
	}
	if cut > 0 {
		w.start = w.events[cut-1].Rev
		w.first += uint64(cut)
		w.events = w.events[cut:]
		if w.dead += cut; w.dead > len(w.events)+16 {
			w.events, w.dead = slices.Clone(w.events), 0
		}
	}
}

// since returns the events from sequence number seq on, and whether the
// window still has them.
func (w *window) since(seq uint64) ([]*Event, bool) {
	if seq < w.first {
		return nil, false
	}
	return w.events[seq-w.first : len(w.events) : len(w.events)], true
}

// after returns the sequence number of the first event after revision rev.
func (w *window) after(rev int64) uint64 {
	return w.first + uint64(sort.Search(len(w.events), func(i int) bool { return w.events[i].Rev > rev }))
}

// reset empties the window; it is complete from revision start on. The gap in
// the sequence numbers shows watchers that their place in the old window is
// gone.
func (w *window) reset(start int64) {
	w.first = w.next() + 1
	w.events, w.bytes, w.dead, w.start = nil, 0, 0, start
}

// Since returns the events after a revision, and whether the view still has all of them.
func (v *View) Since(ctx context.Context, rev int64) ([]*Event, bool, error) {
	if err := v.lockLoaded(ctx); err != nil {
		return nil, false, err
	}
	defer v.mu.Unlock()
	if rev < v.window.start {
		return nil, false, nil
	}
	events, ok := v.window.since(v.window.after(rev))
	return events, ok, nil
}
