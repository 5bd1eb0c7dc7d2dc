package store

import (
	"sync"
	"weak"
)

// Budget bounds the bytes of cached encodings over all items: past the limit
// the oldest go. A dropped encoding is made again when someone asks for it.
type Budget struct {
	limit int

	mu    sync.Mutex
	used  int
	queue []encoded // in the order they were made
}

// encoded is one encoding made. It does not keep its item: one that no view
// or window holds any more takes its encodings with it.
type encoded struct {
	item  weak.Pointer[Item]
	bytes int
}

// NewBudget makes a budget of limit bytes.
func NewBudget(limit int) *Budget { return &Budget{limit: limit} }

// encodingCost is what an encoding takes beside its bytes.
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

// Used returns the bytes of encodings made and not dropped yet, those of items
// that are gone already included.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
