package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Table is a table of a database.
type Table struct {
	// Columns are the names of its columns, by position, in lower case.
	Columns []string

	d    *DB
	root uint32
}

// ErrNoTable says that a database has no table of a name.
var ErrNoTable = errors.New("it has no such table")

// errFound ends a scan.
var errFound = errors.New("found")

// Table finds a table by name.
func (d *DB) Table(ctx context.Context, name string) (*Table, error) {
	t := &Table{d: d}
	err := d.scan(ctx, 1, func(r *Row) error { // type, name, tbl_name, rootpage, sql
		var v [5]Value
		for n := range v {
			var err error
			if v[n], err = r.Column(n); err != nil {
				return err
			}
		}
		if string(v[0].Bytes) != "table" || !strings.EqualFold(string(v[1].Bytes), name) {
			return nil
		}
		if v[3].Kind != Int || v[3].Int < 1 || v[3].Int > math.MaxUint32 {
			return fmt.Errorf("the root of table %s is page %d", name, v[3].Int)
		}
		t.root, t.Columns = uint32(v[3].Int), columnsOf(string(v[4].Bytes))
		return errFound
	})
	switch {
	case errors.Is(err, errFound):
		return t, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", d.file.Name(), err)
	}
	return nil, fmt.Errorf("%s: %w: %s", d.file.Name(), ErrNoTable, name)
}

// Scan calls each with every row, in the order of row IDs. The row is valid during the call only.
func (t *Table) Scan(ctx context.Context, each func(*Row) error) error {
	return t.d.scan(ctx, t.root, each)
}

// Column returns the position of a column, or -1.
func (t *Table) Column(name string) int { return slices.Index(t.Columns, name) }

// columnsOf returns the names of columns in a CREATE TABLE statement: the first word of each part between its parentheses, except of parts
// that are constraints of the table.
func columnsOf(sql string) (names []string) {
	_, body, _ := strings.Cut(sql, "(")
	for _, part := range parts(body) {
		name := firstWord(part)
		switch strings.ToUpper(name) {
		case "CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "":
			continue
		}
		names = append(names, strings.ToLower(strings.Trim(name, "\"`[]'")))
	}
	return names
}

// parts splits at the commas outside parentheses, up to the parenthesis that closes.
func parts(s string) (out []string) {
	depth, from := 0, 0
	for i, c := range s {
		switch {
		case c == '(':
			depth++
		case c == ')' && depth == 0:
			return append(out, s[from:i])
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			out, from = append(out, s[from:i]), i+1
		}
	}
	return append(out, s[from:])
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(strings.Join(strings.Fields(s), " "), " ")
	return word
}
