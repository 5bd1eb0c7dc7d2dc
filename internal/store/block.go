package store

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// block is the values of some items, one after another, compressed. It does not change.
type block struct {
	of     *blocks
	packed []byte
	size   int // in bytes, of all values
	items  int
}

// slot is where the value of an item is in a block. Those of a block are allocated together.
type slot struct {
	block *block
	at    int
}

// blockBytes is how many bytes of values are compressed together: enough for some to be alike, and few enough to be decompressed for one.
const blockBytes = 8 << 10

// blocks compresses and decompresses. The zero value is ready to use, by many goroutines.
type blocks struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	// rooms has memory to compress in.
	rooms sync.Pool
	// last is the block that was opened last: who reads one item often goes on with the next.
	last atomic.Pointer[opened]
}

type packRoom struct {
	plain, packed []byte
	values        Values
}

type opened struct {
	block *block
	plain []byte
}

// init makes what compresses when something is compressed for the first time: it takes some memory.
func (b *blocks) init() {
	b.once.Do(func() {
		b.rooms.New = func() any { return new(packRoom) }
		var err error
		if b.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithWindowSize(2*blockBytes), zstd.WithLowerEncoderMem(true)); err != nil {
			panic(err) // of the options, which do not change
		}
		if b.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true)); err != nil {
			panic(err)
		}
	})
}

// pack compresses the values of items, which have some, and replaces them. Readers may read the items meanwhile.
func (b *blocks) pack(items []*Item) {
	b.init()
	made := &block{of: b, items: len(items)}
	slots := make([]slot, len(items))
	room := b.rooms.Get().(*packRoom)
	defer b.rooms.Put(room)
	room.plain = room.plain[:0]
	for n, i := range items {
		slots[n] = slot{made, len(room.plain)}
		room.plain = append(room.plain, room.values.Of(i)...)
	}
	made.size = len(room.plain)
	room.packed = b.enc.EncodeAll(room.plain, room.packed[:0])
	made.packed = bytes.Clone(room.packed)
	for n, i := range items {
		i.slot.Store(&slots[n])
		i.plain.Store(nil) // after the slot is there: a reader finds one of both
	}
}

// open appends the values of a block to room.
func (b *block) open(room []byte) []byte {
	plain, err := b.of.dec.DecodeAll(b.packed, room)
	if err != nil || len(plain)-len(room) != b.size {
		panic(fmt.Sprintf("store: values in memory cannot be decompressed: %v", err)) // it was compressed here
	}
	return plain
}

// value returns the value of a size at a slot.
func (s *slot) value(size int) []byte {
	last := s.block.of.last.Load()
	if last == nil || last.block != s.block {
		last = &opened{s.block, s.block.open(make([]byte, 0, s.block.size))}
		s.block.of.last.Store(last)
	}
	return last.plain[s.at : s.at+size : s.at+size]
}

// Values reads the values of items that come one after another, as those of a list do: what is compressed together is decompressed once,
// always in the same memory. The zero value is ready to use, by one goroutine.
type Values struct {
	block *block
	plain []byte
}

// Of returns the value of an item. It is valid until the next call, and must not be changed.
func (r *Values) Of(i *Item) []byte {
	if v, ok := i.inMemory(); ok {
		return v
	}
	s := i.slot.Load()
	if s.block != r.block {
		r.block, r.plain = s.block, s.block.open(r.plain[:0])
	}
	return r.plain[s.at : s.at+i.Size()]
}
