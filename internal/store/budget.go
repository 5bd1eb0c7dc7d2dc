package store

import (
	"sync"
	"weak"
)

// Budget bounds the bytes of cached encodings over all items: above the limit
// the oldest are dropped. A dropped encoding is made again when it is needed.
type Budget struct {
	limit int
	// lent is the revision up to which items are those of other stores, with which nothing is kept: it would outlive this one.
	lent int64

	mu    sync.Mutex
	used  int
	queue []encoded // in the order they were made
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
		if i := b.queue[0].item.Value(); i != nil {
			i.enc.Store(nil)
		}
		b.used -= b.queue[0].bytes
		b.queue = b.queue[1:]
	}
}

// Used returns the bytes of the encodings that were not dropped yet, including
// those of items that were already freed.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
