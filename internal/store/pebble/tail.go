package pebble

import (
	"sort"
	"sync"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Bounds of the recent changes that are kept in memory.
const (
	tailEvents = 1 << 16
	tailBytes  = 32 << 20
)

// tail is the recent changes of all keys. Watches read them from here, without another look into the tree.
type tail struct {
	mu      sync.Mutex
	events  []kv.Event    // in the order of revisions; cut off and appended to, never overwritten
	bytes   int           // of events
	from    int64         // all changes from this revision on are in events
	head    int64         // readers may see changes up to this revision: it is on disk
	changed chan struct{} // closed when head grows
}

func newTail(head int64) *tail {
	return &tail{from: head + 1, head: head, changed: make(chan struct{})}
}

// add appends the changes of one transaction.
func (t *tail) add(events []kv.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, events...)
	for n := range events {
		t.bytes += size(&events[n])
	}
	if len(t.events) > tailEvents || t.bytes > tailBytes {
		t.cut()
	}
}

// eventBytes is about what an event takes beside its key and value.
const eventBytes = 192

func size(e *kv.Event) int { return len(e.Key) + len(e.Value) + eventBytes }

// cut drops the older half of the events, but none that readers must not see yet: a transaction is not on disk when it is dropped
// only if it alone is as large as all that may be kept.
func (t *tail) cut() {
	keep := min(len(t.events)/2, t.index(t.head+1))
	for rev := t.events[keep].ModRevision; keep > 0 && t.events[keep-1].ModRevision == rev; {
		keep-- // a transaction stays whole
	}
	if keep == 0 {
		return
	}
	kept := make([]kv.Event, len(t.events)-keep, len(t.events))
	copy(kept, t.events[keep:])
	t.events, t.from, t.bytes = kept, kept[0].ModRevision, 0
	for n := range kept {
		t.bytes += size(&kept[n])
	}
}

// show lets readers see changes up to a revision.
func (t *tail) show(rev int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rev > t.head {
		t.head = rev
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

// since returns the changes from a revision on and the revision up to which they are complete, and a channel that is closed when there
// are more. old says that changes from that revision on are not all here any more.
func (t *tail) since(next int64) (events []kv.Event, rev int64, changed <-chan struct{}, old bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case next > t.head:
		return nil, t.head, t.changed, false
	case next < t.from:
		return nil, t.head, t.changed, true
	}
	return t.events[t.index(next):t.index(t.head+1)], t.head, t.changed, false
}

// index is the place of the first event at revision rev or later.
func (t *tail) index(rev int64) int {
	return sort.Search(len(t.events), func(n int) bool { return t.events[n].ModRevision >= rev })
}
