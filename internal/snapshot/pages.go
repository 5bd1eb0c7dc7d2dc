package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
)

// This file checks the pages of a snapshot before etcd's database opens it. A snapshot may come from anywhere, and the database trusts
// its file: it follows page numbers and lengths wherever they lead, so that a forged file ends the process or makes it read
// one page for ever. A sound file is a tree: each page is in it once, and the keys and values in a page follow one another.
//
//	page:     id u64, flags u16, count u16, overflow u32, then the elements, then their keys and values
//	branch:   position u32, key size u32, page u64
//	leaf:     flags u32, position u32, key size u32, value size u32; a bucket's value is its root page u64 and a sequence u64
//	meta:     magic u32, version u32, page size u32, flags u32, root page u64, sequence u64, freelist u64, pages u64, tx u64, sum u64
const (
	pageHead, elementSize, metaSize = 16, 16, 64
	branchPage, leafPage, freePage  = 0x01, 0x02, 0x10
	metaMagic, metaVersion          = 0xED0CDAED, 2
	bucketElement                   = 0x01
	noFreelist                      = math.MaxUint64
	maxHeight                       = 32
)

// pages are the pages of a database.
type pages struct {
	from  io.ReaderAt
	size  int64 // of a page
	count uint64
	seen  []bool // the pages that are in a place
	each  func(bucket, key, value []byte) error
}

// errPage says that a database is not what it should be.
var errPage = errors.New("a page of it is wrong")

// checkPages checks a database of size bytes, and calls each with all keys and values, of which it must keep nothing.
func checkPages(from io.ReaderAt, size int64, each func(bucket, key, value []byte) error) error {
	p := &pages{from: from, each: each}
	meta, err := p.meta(size)
	if err != nil {
		return err
	}
	if list := binary.LittleEndian.Uint64(meta[32:]); list != noFreelist {
		if err := p.freelist(list); err != nil {
			return err
		}
	}
	return p.tree(nil, binary.LittleEndian.Uint64(meta[16:]))
}

// meta finds the newest meta page, and the size and number of pages.
func (p *pages) meta(size int64) ([]byte, error) {
	var newest []byte
	for at := int64(0); at <= 64<<10; at = max(2*at, 512) { // the second one is behind a page of unknown size
		meta := make([]byte, pageHead+metaSize)
		if _, err := p.from.ReadAt(meta, at); err != nil {
			break // the file ends
		}
		meta = meta[pageHead:]
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:metaSize-8])
		pageSize := int64(binary.LittleEndian.Uint32(meta[8:]))
		if binary.LittleEndian.Uint32(meta) != metaMagic || binary.LittleEndian.Uint32(meta[4:]) != metaVersion || sum.Sum64() != binary.LittleEndian.Uint64(meta[metaSize-8:]) ||
			at != 0 && at != pageSize || p.size != 0 && p.size != pageSize {
			continue
		}
		p.size = pageSize
		if newest == nil || binary.LittleEndian.Uint64(meta[48:]) > binary.LittleEndian.Uint64(newest[48:]) {
			newest = meta
		}
	}
	if newest == nil || p.size < 512 || p.size > 64<<10 || p.size&(p.size-1) != 0 {
		return nil, fmt.Errorf("%w: it has no meta page", errPage)
	}
	p.count = binary.LittleEndian.Uint64(newest[40:])
	if p.count < 3 || p.count > uint64(size/p.size) {
		return nil, fmt.Errorf("%w: it says that it has %d pages of %d bytes, and is %d bytes long", errPage, p.count, p.size, size)
	}
	p.seen = make([]bool, p.count)
	return newest, nil
}

// read reads a page with those that it flows over into, each only once.
func (p *pages) read(id uint64) ([]byte, error) {
	head := make([]byte, pageHead)
	if id < 2 || id >= p.count || p.seen[id] {
		return nil, fmt.Errorf("%w: page %d", errPage, id)
	}
	p.seen[id] = true
	if _, err := p.from.ReadAt(head, int64(id)*p.size); err != nil {
		return nil, err
	}
	more := uint64(binary.LittleEndian.Uint32(head[12:]))
	if binary.LittleEndian.Uint64(head) != id || more >= p.count-id {
		return nil, fmt.Errorf("%w: page %d", errPage, id)
	}
	for n := id + 1; n <= id+more; n++ {
		if p.seen[n] {
			return nil, fmt.Errorf("%w: page %d is in two places", errPage, n)
		}
		p.seen[n] = true
	}
	page := make([]byte, int64(more+1)*p.size)
	_, err := p.from.ReadAt(page, int64(id)*p.size)
	return page, err
}

// freelist checks the list of unused pages.
func (p *pages) freelist(id uint64) error {
	page, err := p.read(id)
	if err != nil {
		return err
	}
	count, ids := uint64(binary.LittleEndian.Uint16(page[10:])), page[pageHead:]
	if count == math.MaxUint16 {
		count, ids = binary.LittleEndian.Uint64(ids), ids[8:]
	}
	if flags := binary.LittleEndian.Uint16(page[8:]); flags != freePage || count > uint64(len(ids)/8) {
		return fmt.Errorf("%w: the list of free pages", errPage)
	}
	for n := range count {
		free := binary.LittleEndian.Uint64(ids[8*n:])
		if free < 2 || free >= p.count || p.seen[free] {
			return fmt.Errorf("%w: page %d is free and is not", errPage, free)
		}
		p.seen[free] = true
	}
	return nil
}

// tree checks a bucket's tree: the root bucket's, which has only buckets, if bucket is nil.
func (p *pages) tree(bucket []byte, root uint64) error {
	var last []byte
	return p.node(root, maxHeight, func(flags uint32, key, value []byte) error {
		if last != nil && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("%w: the keys are out of order", errPage)
		}
		last = append(last[:0], key...)
		switch isBucket := flags&bucketElement != 0; {
		case isBucket != (bucket == nil) || isBucket && len(value) < 16:
			return fmt.Errorf("%w: a bucket in a bucket, or a value that is in none", errPage)
		case !isBucket:
			return p.each(bucket, key, value)
		}
		if root := binary.LittleEndian.Uint64(value); root != 0 {
			return p.tree(slices.Clone(key), root)
		}
		return p.elements(slices.Clone(value[16:]), 0, p.inline(slices.Clone(key)))
	})
}

// inline checks the elements of a bucket that is so small that it has no page of its own.
func (p *pages) inline(bucket []byte) func(flags uint32, key, value []byte) error {
	var last []byte
	return func(flags uint32, key, value []byte) error {
		if flags != 0 || last != nil && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("%w: a small bucket", errPage)
		}
		last = append(last[:0], key...)
		return p.each(bucket, key, value)
	}
}

// node calls each with the elements of the leaves below a page.
func (p *pages) node(id uint64, height int, each func(flags uint32, key, value []byte) error) error {
	page, err := p.read(id)
	if err != nil {
		return err
	}
	return p.elements(page, height, each)
}

// elements calls each with the elements of a page, or those below it.
func (p *pages) elements(page []byte, height int, each func(flags uint32, key, value []byte) error) error {
	if len(page) < pageHead {
		return fmt.Errorf("%w: it is too short", errPage)
	}
	flags, count := binary.LittleEndian.Uint16(page[8:]), int(binary.LittleEndian.Uint16(page[10:]))
	end := pageHead + count*elementSize // where the next key begins, at the earliest
	if end > len(page) || flags != leafPage && (flags != branchPage || count == 0 || height == 0) {
		return fmt.Errorf("%w: page %d", errPage, binary.LittleEndian.Uint64(page))
	}
	for n := range count {
		at := pageHead + n*elementSize
		e := page[at : at+elementSize]
		position, keySize, valueSize := e[4:], e[8:], uint32(0)
		if flags == branchPage {
			position, keySize = e, e[4:]
		} else {
			valueSize = binary.LittleEndian.Uint32(e[12:])
		}
		begin := uint64(at) + uint64(binary.LittleEndian.Uint32(position))
		middle := begin + uint64(binary.LittleEndian.Uint32(keySize))
		if begin < uint64(end) || middle+uint64(valueSize) > uint64(len(page)) {
			return fmt.Errorf("%w: element %d of page %d", errPage, n, binary.LittleEndian.Uint64(page))
		}
		end = int(middle) + int(valueSize)
		var err error
		if flags == branchPage {
			err = p.node(binary.LittleEndian.Uint64(e[8:]), height-1, each)
		} else {
			err = each(binary.LittleEndian.Uint32(e), page[begin:middle], page[middle:end])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
