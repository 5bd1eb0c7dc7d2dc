// Package dbfile looks through the pages of etcd's database before bbolt opens it. bbolt trusts its file: it follows page numbers and
// lengths wherever they lead. A damaged page makes it panic, often in a goroutine of its own and only when a later write needs the page,
// which would end the process; a forged one can also send it in circles.
//
// A file is a row of pages of one size. Pages 0 and 1 are meta pages, of which the newer valid one counts. It names the root of a
// B+tree of buckets, each of which is such a tree itself or, if it is small, lies in the value of its entry. Each page is in one place:
//
//	page    id u64 | flags u16 | entries u16 | further pages u32 | entries | keys and values
//	branch  position u32 | key u32 | page u64
//	leaf    flags u32 | position u32 | key u32 | value u32
//	bucket  root page u64 (0: what follows is its page) | sequence u64
//	meta    magic u32 | version u32 | page size u32 | flags u32 | root u64 | sequence u64 | freelist u64 | pages u64 | transaction u64 | sum u64
package dbfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

const (
	pageHeader, entrySize, bucketSize = 16, 16, 16

	branchPage, leafPage, metaPage, freePage = 0x01, 0x02, 0x04, 0x10

	bucketEntry = 0x01 // of an entry in a leaf

	boltMagic   = 0xED0CDAED
	boltVersion = 2
	noFreelist  = ^uint64(0)

	// maxDepth bounds the trees: three levels hold a terabyte.
	maxDepth = 32
	// maxRun bounds the bytes of a page with those that continue it. etcd's largest value is a few MB.
	maxRun = 1 << 30
)

var order = binary.NativeEndian // the file has the machine's

// meta is what a meta page says.
type meta struct {
	pageSize             int64
	root, freelist, high uint64 // high: pages from here on are not used
	txn                  uint64
}

// pages reads a database.
type pages struct {
	r    io.ReaderAt
	meta meta
	used []bool // by page: part of a tree, or free
	each func(bucket, key, value []byte) error
}

// Check returns an error if the database of size bytes in r is damaged. It calls each (optional) with every key and value, which
// are only valid during the call; an error of it ends the check.
func Check(r io.ReaderAt, size int64, each func(bucket, key, value []byte) error) error {
	m, err := readMeta(r)
	if err != nil {
		return err
	}
	if m.high < 3 || m.high > uint64(size/m.pageSize) {
		return fmt.Errorf("it has %d bytes, and says that it has %d pages of %d", size, m.high, m.pageSize)
	}
	p := &pages{r: r, meta: m, used: make([]bool, m.high), each: each}
	if m.freelist != noFreelist {
		if err := p.freelist(); err != nil {
			return err
		}
	}
	return p.tree(m.root, span{})
}

// readMeta reads the newer of the two meta pages that are valid. The second page begins where the pages' size says; if the first
// is not valid, at any power of two.
func readMeta(r io.ReaderAt) (newest meta, err error) {
	found := false
	for at := int64(0); at <= 1<<16; at = max(1024, 2*at) {
		m, ok := metaAt(r, at)
		if ok && (at == 0 || at == m.pageSize) && (!found || m.txn > newest.txn) {
			newest, found = m, true
		}
	}
	if !found {
		return meta{}, errors.New("neither of its first two pages is valid")
	}
	return newest, nil
}

func metaAt(r io.ReaderAt, at int64) (m meta, ok bool) {
	b := make([]byte, pageHeader+64)
	if n, _ := r.ReadAt(b, at); n < len(b) || order.Uint16(b[8:]) != metaPage {
		return m, false
	}
	b = b[pageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(b[:56])
	m = meta{
		pageSize: int64(order.Uint32(b[8:])), root: order.Uint64(b[16:]), freelist: order.Uint64(b[32:]), high: order.Uint64(b[40:]), txn: order.Uint64(b[48:]),
	}
	return m, order.Uint32(b) == boltMagic && order.Uint32(b[4:]) == boltVersion && order.Uint64(b[56:]) == sum.Sum64() &&
		m.pageSize >= 1024 && m.pageSize <= 1<<16 && m.pageSize&(m.pageSize-1) == 0
}

// run reads a page and those that continue it, marks them as used, and checks its header.
func (p *pages) run(id uint64) (kind uint16, entries int, page []byte, err error) {
	if id < 2 || id >= p.meta.high {
		return 0, 0, nil, fmt.Errorf("page %d is not one of its %d pages", id, p.meta.high)
	}
	head := make([]byte, p.meta.pageSize)
	if _, err := p.r.ReadAt(head, int64(id)*p.meta.pageSize); err != nil {
		return 0, 0, nil, fmt.Errorf("read page %d: %w", id, err)
	}
	if own := order.Uint64(head); own != id {
		return 0, 0, nil, fmt.Errorf("page %d says that it is page %d", id, own)
	}
	further := uint64(order.Uint32(head[12:]))
	if id+further >= p.meta.high || int64(further+1)*p.meta.pageSize > maxRun {
		return 0, 0, nil, fmt.Errorf("page %d is continued by %d, more than there are", id, further)
	}
	for n := id; n <= id+further; n++ {
		if p.used[n] {
			return 0, 0, nil, fmt.Errorf("page %d is used twice", n)
		}
		p.used[n] = true
	}
	page = head
	if further > 0 {
		page = make([]byte, int64(further+1)*p.meta.pageSize)
		if _, err := p.r.ReadAt(page, int64(id)*p.meta.pageSize); err != nil {
			return 0, 0, nil, fmt.Errorf("read page %d: %w", id, err)
		}
	}
	return order.Uint16(page[8:]), int(order.Uint16(page[10:])), page, nil
}

// freelist reads the list of free pages, and marks them as used.
func (p *pages) freelist() error {
	kind, entries, page, err := p.run(p.meta.freelist)
	if err != nil {
		return err
	}
	at, n := pageHeader, uint64(entries)
	if entries == 0xFFFF { // the number stands before the list
		at, n = at+8, order.Uint64(page[pageHeader:])
	}
	if kind != freePage || n > uint64(len(page)-at)/8 {
		return fmt.Errorf("page %d is no list of free pages", p.meta.freelist)
	}
	for ; n > 0; n-- {
		id := order.Uint64(page[at:])
		if id < 2 || id >= p.meta.high || p.used[id] {
			return fmt.Errorf("page %d cannot be free", id)
		}
		p.used[id], at = true, at+8
	}
	return nil
}

// span is a part of a tree.
type span struct {
	bucket      []byte // nil: the tree of all buckets
	first, last []byte // its keys are from the first on and before the last; nil: any
	depth       int
}

// tree looks through the tree below a page.
func (p *pages) tree(id uint64, s span) error {
	kind, entries, page, err := p.run(id)
	if err != nil {
		return err
	}
	if err := p.entries(kind, entries, page, s); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// entries looks through the entries of a page, and what lies below them.
func (p *pages) entries(kind uint16, entries int, page []byte, s span) error {
	switch {
	case s.depth > maxDepth:
		return errors.New("it lies too deep")
	case kind != branchPage && kind != leafPage:
		return fmt.Errorf("it is of no known kind (%#x)", kind)
	case pageHeader+entries*entrySize > len(page):
		return fmt.Errorf("it has no room for %d entries", entries)
	case kind == branchPage && entries == 0:
		return errors.New("it leads nowhere")
	}
	keys, values, err := parts(kind, entries, page)
	if err != nil {
		return err
	}
	for n, key := range keys {
		if n == 0 && s.first != nil && bytes.Compare(key, s.first) < 0 || n > 0 && bytes.Compare(key, keys[n-1]) <= 0 || s.last != nil && bytes.Compare(key, s.last) >= 0 {
			return fmt.Errorf("the key of entry %d is out of order", n)
		}
	}
	for n, key := range keys {
		at := page[pageHeader+n*entrySize:]
		switch {
		case kind == branchPage:
			below := span{bucket: s.bucket, first: key, last: s.last, depth: s.depth + 1}
			if n+1 < entries {
				below.last = keys[n+1]
			}
			err = p.tree(order.Uint64(at[8:]), below)
		case s.bucket == nil:
			err = p.bucket(order.Uint32(at), key, values[n], s.depth+1)
		case order.Uint32(at) != 0:
			err = errors.New("a bucket lies in a bucket")
		case p.each != nil:
			err = p.each(s.bucket, key, values[n])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket looks through the bucket of an entry. In etcd's database all entries of the first tree are buckets, and no others are.
func (p *pages) bucket(flags uint32, name, value []byte, depth int) error {
	if flags&bucketEntry == 0 || len(value) < bucketSize {
		return errors.New("an entry that is in no bucket")
	}
	s := span{bucket: name, depth: depth}
	if root := order.Uint64(value); root != 0 {
		return p.tree(root, s)
	}
	page := value[bucketSize:]
	if len(page) < pageHeader || order.Uint16(page[8:]) != leafPage {
		return errors.New("a bucket has no page")
	}
	return p.entries(leafPage, int(order.Uint16(page[10:])), page, s)
}

// parts returns the keys and, of a leaf, the values of a page. A position counts from where its entry stands; what the entries name
// follows them in their order.
func parts(kind uint16, entries int, page []byte) (keys, values [][]byte, err error) {
	keys, values = make([][]byte, entries), make([][]byte, entries)
	end := uint64(pageHeader + entries*entrySize)
	for n := range entries {
		begin := pageHeader + n*entrySize
		at := page[begin:]
		position, keyBytes, valueBytes := order.Uint32(at), order.Uint32(at[4:]), uint32(0)
		if kind == leafPage {
			position, keyBytes, valueBytes = order.Uint32(at[4:]), order.Uint32(at[8:]), order.Uint32(at[12:])
		}
		from := uint64(begin) + uint64(position)
		middle := from + uint64(keyBytes)
		if from < end || middle+uint64(valueBytes) > uint64(len(page)) {
			return nil, nil, fmt.Errorf("entry %d reaches out of its place", n)
		}
		end = middle + uint64(valueBytes)
		keys[n], values[n] = page[from:middle], page[middle:end]
	}
	return keys, values, nil
}
