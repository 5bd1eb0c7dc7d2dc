package store

import (
	"context"
	"sync"
	"time"
)

// This file keeps the values in memory within bounds: beyond a limit those that nobody has asked for lately are compressed, several
// together. They stay so until they are replaced; most of a large view is never asked for by itself.

const (
	// defaultPlain is how many bytes of values are kept as they are, of the stores of a cluster together.
	defaultPlain = 192 << 20
	// packEvery is how often a store looks whether it keeps more, and how long values are kept for who asks for them.
	packEvery = 10 * time.Second
)

// values are those of all items of one store or several, as far as memory is concerned.
type values struct {
	limit  int64 // bytes of those that are not compressed
	stores []*Store
	blocks blocks
}

// runPack compresses values from time to time, of all stores. It is run for the first of them.
func (s *Store) runPack(ctx context.Context) {
	for {
		select {
		case <-s.clock.After(packEvery):
			_ = s.guard.Call("compressing values", func() error { s.values.pack(ctx); return nil })
		case <-ctx.Done():
			return
		}
	}
}

// pack compresses values until no more than the limit are left as they are, or only such that were asked for since the last time.
func (m *values) pack(ctx context.Context) {
	over := m.plainBytes() - m.limit
	for _, s := range m.stores {
		for _, v := range s.allViews() {
			if over <= 0 || ctx.Err() != nil {
				return
			}
			over -= v.pack(ctx, over)
		}
	}
}

// plainBytes is how many bytes of values are not compressed.
func (m *values) plainBytes() (n int64) {
	for _, s := range m.stores {
		for _, v := range s.allViews() {
			v.mu.Lock()
			n += v.plain
			v.mu.Unlock()
		}
	}
	return n
}

// pack compresses values of the view until it has compressed so many bytes, and returns how many it has.
func (v *View) pack(ctx context.Context, enough int64) (packed int64) {
	v.mu.Lock()
	if v.plain == 0 {
		v.mu.Unlock()
		return 0
	}
	items, epoch := v.items.Copy(), v.epoch
	v.mu.Unlock()
	p := packing{view: v, full: func(items []*Item) {
		v.store.values.blocks.pack(items)
		packed += v.uncount(items, epoch)
	}}
	items.Scan(func(_ string, i *Item) bool {
		p.pass(i)
		return packed < enough && ctx.Err() == nil
	})
	p.close()
	return packed
}

// uncount notes that items were compressed, and returns how many bytes of them were not before; epoch is when they were found.
func (v *View) uncount(items []*Item, epoch int) (bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, i := range items {
		if i.counted && v.epoch == epoch {
			i.counted = false
			bytes += int64(i.Size())
		}
	}
	v.plain -= bytes
	return bytes
}

// countLocked and uncountLocked keep v.plain, as items come into the view and leave it.
func (v *View) countLocked(i *Item) {
	if _, ok := i.inMemory(); ok {
		i.counted = true
		v.plain += int64(i.Size())
	}
}

func (v *View) uncountLocked(i *Item) {
	if i.counted {
		i.counted = false
		v.plain -= int64(i.Size())
	}
}

// packing collects items, in the order of their keys, for blocks.
type packing struct {
	view  *View
	run   []*Item
	bytes int
	full  func([]*Item) // gets the items of one block
	// same are the items last passed that have a block in common.
	same []*Item
}

// pass adds an item unless it was asked for, or is compressed already.
func (p *packing) pass(i *Item) {
	s := i.slot.Load()
	if s == nil || len(p.same) > 0 && p.same[0].slot.Load().block != s.block {
		p.sparse()
	}
	switch {
	case s != nil:
		p.same = append(p.same, i)
	case !i.asked.Swap(false):
		p.add(i)
	}
}

// sparse adds the items of a block again that is mostly values that were replaced.
func (p *packing) sparse() {
	if len(p.same) > 0 && 2*len(p.same) < p.same[0].slot.Load().block.items {
		for _, i := range p.same {
			p.add(i)
		}
	}
	p.same = p.same[:0]
}

func (p *packing) add(i *Item) {
	if i.Size() == 0 {
		return
	}
	if p.view.kind.Labels != nil {
		_, _ = p.view.labelBits(i) // a list by label then need not decompress all
	}
	if p.bytes > 0 && p.bytes+i.Size() > blockBytes {
		p.flush()
	}
	p.run = append(p.run, i)
	p.bytes += i.Size()
}

func (p *packing) flush() {
	if len(p.run) > 0 {
		p.full(p.run)
	}
	p.run, p.bytes = nil, 0
}

// close ends the collection.
func (p *packing) close() {
	p.sparse()
	p.flush()
}

// packLoaded compresses the items of a load that there is no room for as they are, beside the load. end waits for that.
func (v *View) packLoaded() (item func(*Item), end func()) {
	room := v.store.values.limit - v.store.values.plainBytes()
	var full chan []*Item // nil: there is room for all so far
	var packers sync.WaitGroup
	begin := func() {
		full = make(chan []*Item, 64)
		for range 2 {
			packers.Go(func() {
				for items := range full {
					_ = v.store.guard.Call("compressing values", func() error { v.store.values.blocks.pack(items); return nil })
				}
			})
		}
	}
	p := packing{view: v, full: func(items []*Item) {
		if full == nil {
			begin()
		}
		full <- items
	}}
	item = func(i *Item) {
		if room -= int64(i.Size()); room < 0 {
			p.add(i)
		}
	}
	return item, func() {
		p.close()
		if full != nil {
			close(full)
			packers.Wait()
		}
	}
}
