package sqlite

import (
	"errors"
	"fmt"
	"math"
)

// Row is a row of a table.
type Row struct {
	ID int64

	scan     *scan
	page     uint32 // where it is
	size     int    // of its payload
	payload  []byte // as much of it as has been read
	next     uint32 // page that continues it
	overflow []byte // a page
	types    []int64
	starts   []int // of the values, in the payload
}

// Value is the value of a column. Kind says which field counts.
type Value struct {
	Kind  Kind
	Int   int64
	Float float64
	Bytes []byte // of a text or a blob; valid until the next row
}

// Kind is the kind of a value.
type Kind int

// The kinds of values.
const (
	Null Kind = iota
	Int
	Float
	Text
	Blob
)

var errRowShort = errors.New("it reaches out of the page")

// maxPayload bounds a row, as SQLite does.
const maxPayload = math.MaxInt32

// read reads the cell of a row as far as it is in its page.
func (r *Row) read(cell []byte) error {
	size, n := varint(cell)
	if n == 0 {
		return errRowShort
	}
	id, m := varint(cell[n:])
	if m == 0 {
		return errRowShort
	}
	if size < 0 || size > maxPayload || size > int64(r.scan.d.pages)*r.scan.d.pageSize {
		return fmt.Errorf("it says that it has %d bytes", size)
	}
	cell, r.ID, r.size, r.next = cell[n+m:], id, int(size), 0
	r.types, r.starts = r.types[:0], r.starts[:0]
	local := localBytes(r.size, r.scan.d.usable)
	if local < r.size {
		if len(cell) < local+4 {
			return errRowShort
		}
		r.next = big.Uint32(cell[local:])
	} else if len(cell) < local {
		return errRowShort
	}
	r.payload = append(r.payload[:0], cell[:local]...)
	return nil
}

// localBytes is how much of a payload lies in the page of its row.
func localBytes(size, usable int) int {
	most := usable - 35
	if size <= most {
		return size
	}
	least := (usable-12)*32/255 - 23
	if k := least + (size-least)%(usable-4); k <= most {
		return k
	}
	return least
}

// need reads the payload up to n bytes.
func (r *Row) need(n int) error {
	if n > r.size {
		return fmt.Errorf("a value ends at byte %d of %d", n, r.size)
	}
	for len(r.payload) < n {
		if err := r.scan.page(r.next, r.overflow); err != nil {
			return fmt.Errorf("continued: %w", err)
		}
		r.next = big.Uint32(r.overflow)
		r.payload = append(r.payload, r.overflow[4:min(r.scan.d.usable, 4+r.size-len(r.payload))]...)
	}
	return nil
}

// Column returns the value of a column by its position. It reads no more of the row than is needed. A column that was added to the table
// after the row was written is null.
func (r *Row) Column(n int) (v Value, err error) {
	if err = r.head(); err == nil && n < len(r.types) {
		if err = r.need(r.starts[n] + valueBytes(r.types[n])); err == nil {
			v, err = valueOf(r.types[n], r.payload[r.starts[n]:])
		}
	}
	if err != nil {
		err = fmt.Errorf("page %d: row %d, column %d: %w", r.page, r.ID, n, err)
	}
	return v, err
}

// head reads the types of the columns.
func (r *Row) head() error {
	if len(r.types) > 0 {
		return nil
	}
	if err := r.need(min(r.size, 9)); err != nil {
		return err
	}
	length, at := varint(r.payload)
	if at == 0 || length < int64(at) || length > int64(r.size) {
		return fmt.Errorf("its header has %d bytes of %d", length, r.size)
	}
	if err := r.need(int(length)); err != nil {
		return err
	}
	start := int(length)
	for head := r.payload[at:length]; len(head) > 0; {
		kind, n := varint(head)
		if n == 0 || kind < 0 || kind > 2*maxPayload+13 || start > r.size {
			return fmt.Errorf("a column has the type %d", kind)
		}
		r.types, r.starts, head = append(r.types, kind), append(r.starts, start), head[n:]
		start += valueBytes(kind)
	}
	return nil
}

// valueBytes is how long a value of a type is.
func valueBytes(kind int64) int {
	if kind >= 12 {
		return int(kind-12) / 2
	}
	return [...]int{0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0}[kind]
}

// valueOf reads a value, which begins b.
func valueOf(kind int64, b []byte) (Value, error) {
	switch n := valueBytes(kind); {
	case kind >= 12:
		return Value{Kind: Blob - Kind(kind%2), Bytes: b[:n]}, nil
	case kind == 0:
		return Value{}, nil
	case kind == 7:
		return Value{Kind: Float, Float: math.Float64frombits(big.Uint64(b))}, nil
	case kind <= 6:
		i := int64(int8(b[0]))
		for _, c := range b[1:n] {
			i = i<<8 | int64(c)
		}
		return Value{Kind: Int, Int: i}, nil
	case kind <= 9:
		return Value{Kind: Int, Int: kind - 8}, nil
	}
	return Value{}, fmt.Errorf("the type %d is not in use", kind)
}

// varint reads a number of 1 to 9 bytes, the first 8 of which have 7 bits each. n is 0 if b ends before it does.
func varint(b []byte) (v int64, n int) {
	for i, c := range b {
		if i == 8 {
			return v<<8 | int64(c), 9
		}
		v = v<<7 | int64(c&0x7f)
		if c < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
