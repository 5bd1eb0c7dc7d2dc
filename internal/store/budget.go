package store

import "sync"

// Budget bounds the bytes of cached encodings over all items: past the limit
// the oldest go. A dropped encoding is made again when someone asks for it.
type Budget struct {
	limit int

	mu    sync.Mutex
	used  int
	queue []*Item // in the order their encodings were made
}

// NewBudget makes a budget of limit bytes.
func NewBudget(limit int) *Budget { return &Budget{limit: limit} }

func (b *Budget) added(i *Item, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	b.queue = append(b.queue, i)
	for b.used > b.limit && len(b.queue) > 1 {
		b.used -= b.queue[0].drop()
		b.queue[0] = nil
		b.queue = b.queue[1:]
	}
}

// Used returns the bytes of encodings held now.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
