package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// Budget bounds the bytes of cached encodings over all items: above the limit
// the oldest are dropped, and after some minutes those that nobody has asked
// for. A dropped encoding is made again when it is needed.
type Budget struct {
	limit int
	// lent is the revision up to which items are those of other stores, with which nothing is kept: it would outlive this one.
	lent int64

	// period counts the times at which unused ones were looked for.
	period atomic.Uint32

	mu     sync.Mutex
	used   int
	queue  []encoded // in the order they were made, or found to be used
	looked time.Time
}

// encoded is one cached encoding. It holds its item weakly: when no view or
// window holds the item any more, its encodings are freed with it.
type encoded struct {
	item  weak.Pointer[Item]
	bytes int
}

// NewBudget makes a budget of limit bytes.
func NewBudget(limit int) *Budget { return &Budget{limit: limit} }

// Holds says whether encodings of so many bytes fit in all.
func (b *Budget) Holds(bytes int64) bool { return bytes <= int64(b.limit) }

// encodingCost is the overhead of an encoding in bytes.
const encodingCost = 64

func (b *Budget) added(i *Item, n int) {
	n += encodingCost
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	b.queue = append(b.queue, encoded{weak.Make(i), n})
	for b.used > b.limit && len(b.queue) > 1 {
		e := b.pop()
		if i := e.item.Value(); i != nil {
			i.enc.Store(nil)
		}
		b.used -= e.bytes
	}
}

func (b *Budget) pop() encoded {
	e := b.queue[0]
	b.queue = b.queue[1:]
	return e
}

const (
	// unusedAfter is how long at least an encoding is kept that nobody asks for.
	unusedAfter = 2 * time.Minute
	// unusedAtATime is how many are looked at while others that are made wait.
	unusedAtATime = 512
)

// dropUnused drops what nobody has asked for since it was called before, and forgets what is gone, unless that was a moment ago.
func (b *Budget) dropUnused(now time.Time) {
	b.mu.Lock()
	left := len(b.queue)
	if now.Sub(b.looked) < unusedAfter {
		left = 0
	} else {
		b.looked = now
	}
	b.mu.Unlock()
	for since := b.period.Load(); left > 0; left -= unusedAtATime {
		b.lookAt(min(left, unusedAtATime), since)
		if left <= unusedAtATime {
			b.period.Add(1)
		}
	}
}

// lookAt drops the oldest encodings that were not asked for since a period, and puts the others behind all.
func (b *Budget) lookAt(n int, since uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range min(n, len(b.queue)) {
		e := b.pop()
		switch i := e.item.Value(); {
		case i != nil && i.usedSince(since):
			b.queue = append(b.queue, e)
			continue
		case i != nil:
			i.enc.Store(nil)
		}
		b.used -= e.bytes
	}
	if cap(b.queue) > 4*len(b.queue) {
		b.queue = slices.Clone(b.queue)
	}
}

// Used returns the bytes of the encodings that were not dropped yet, including
// those of items that were already freed.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
