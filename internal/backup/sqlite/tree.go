package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
)

const (
	interiorPage, leafPage     = 5, 13
	interiorHeader, leafHeader = 12, 8

	// maxDepth bounds the trees: SQLite's own bound is 20.
	maxDepth = 40
)

// scan reads a table.
type scan struct {
	d       *DB
	ctx     context.Context //nolint:containedctx // it lasts as long as the scan
	each    func(*Row) error
	seen    []uint64 // a bit for each page of the table
	buffers [][]byte // a page for each level
	row     Row      // that is passed to each
	last    int64    // row ID
	any     bool     // there was a row
	root    uint32
}

// scan calls each with every row of the table whose root is a page. The row is valid during the call only.
func (d *DB) scan(ctx context.Context, root uint32, each func(*Row) error) error {
	s := &scan{d: d, ctx: ctx, each: each, seen: make([]uint64, d.pages/64+1), root: root}
	s.row = Row{scan: s, overflow: make([]byte, d.pageSize)}
	return s.tree(root, 0, math.MinInt64, math.MaxInt64)
}

// tree passes the rows below a page, whose IDs are from low to high.
func (s *scan) tree(page uint32, depth int, low, high int64) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d: it lies too deep", page)
	}
	if len(s.buffers) == depth {
		s.buffers = append(s.buffers, make([]byte, s.d.pageSize))
	}
	b := s.buffers[depth]
	if err := errors.Join(s.ctx.Err(), s.page(page, b)); err != nil {
		return err
	}
	body := b[:s.d.usable]
	at := 0
	if page == 1 {
		at = headerBytes
	}
	switch body[at] {
	case leafPage:
		return s.leaf(page, body, at, low, high)
	case interiorPage:
		return s.interior(page, body, at, depth, low, high)
	}
	return fmt.Errorf("page %d: it is no page of a table (%#x)", page, body[at])
}

// page reads a page of the table into b. Each page has one place, so that a scan comes to an end.
func (s *scan) page(n uint32, b []byte) error {
	if err := s.d.page(n, b); err != nil {
		return err
	}
	if s.seen[n/64]&(1<<(n%64)) != 0 {
		return fmt.Errorf("page %d is used twice", n)
	}
	s.seen[n/64] |= 1 << (n % 64)
	return nil
}

// cells returns where the cells of a page are.
func cells(body []byte, at, header int) (positions []byte, err error) {
	first, n := at+header, int(big.Uint16(body[at+3:]))
	if first+2*n > len(body) {
		return nil, fmt.Errorf("it has no room for %d cells", n)
	}
	return body[first : first+2*n], nil
}

// cell returns the bytes from the nth cell on.
func cell(body, positions []byte, n int) ([]byte, error) {
	at := int(big.Uint16(positions[2*n:]))
	if at < leafHeader || at >= len(body) {
		return nil, fmt.Errorf("cell %d reaches out of the page", n)
	}
	return body[at:], nil
}

func (s *scan) interior(page uint32, body []byte, at, depth int, low, high int64) error {
	positions, err := cells(body, at, interiorHeader)
	if err != nil {
		return named(page, err)
	}
	for n := range len(positions) / 2 {
		c, err := cell(body, positions, n)
		if err != nil {
			return named(page, err)
		}
		if len(c) < 5 {
			return fmt.Errorf("page %d: cell %d reaches out of the page", page, n)
		}
		id, size := varint(c[4:])
		if size == 0 || id < low || id > high {
			return fmt.Errorf("page %d: the row ID of cell %d is out of order", page, n)
		}
		if err := s.tree(big.Uint32(c), depth+1, low, id); err != nil {
			return err
		}
		low = id
	}
	return s.tree(big.Uint32(body[at+8:]), depth+1, low, high)
}

func (s *scan) leaf(page uint32, body []byte, at int, low, high int64) error {
	positions, err := cells(body, at, leafHeader)
	if err != nil {
		return named(page, err)
	}
	for n := range len(positions) / 2 {
		c, err := cell(body, positions, n)
		if err == nil {
			err = s.row.read(c)
		}
		if err != nil {
			return fmt.Errorf("page %d: row %d: %w", page, n, err)
		}
		if id := s.row.ID; id < low || id > high || s.any && id <= s.last {
			return fmt.Errorf("page %d: the ID of row %d is out of order", page, n)
		}
		s.row.page, s.last, s.any = page, s.row.ID, true
		if err := s.each(&s.row); err != nil {
			return err
		}
	}
	return nil
}
