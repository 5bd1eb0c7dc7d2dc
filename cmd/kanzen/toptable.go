package main

import (
	"cmp"
	"slices"
	"strings"
)

// table is what a place of top shows: entries that can be chosen, sorted, narrowed and opened. Its last column has the names
// and gets the room that the others leave.
type table struct {
	columns []column
	entries []entry
	// unsorted says that the order of the entries is not to be chosen.
	unsorted bool
	nothing  string // what is said if there are no entries
}

// column is a column of a table. Columns of a higher rank are left out first where there is little room.
type column struct {
	title string
	width int
	most  int // cells that it may take if there is room; 0: width
	rank  int
	left  bool // its texts begin at the left
}

// entry is a line of a table. key is what enter opens.
type entry struct {
	key   string
	cells []cell
}

// cell is a text and what it is sorted by. For a sparkline there are values instead, oldest first.
type cell struct {
	text   string
	by     float64
	values []float64
	style  style
}

// sortable returns the columns by which the entries can be sorted.
func (t *table) sortable() (out []int) {
	if t.unsorted || len(t.entries) == 0 {
		return nil
	}
	for n, c := range t.entries[0].cells {
		if c.values == nil && !t.columns[n].left {
			out = append(out, n)
		}
	}
	return out
}

// sort sorts the entries, by a column from the highest value on.
func (t *table) sort(by int) {
	if t.unsorted {
		return
	}
	slices.SortStableFunc(t.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.cells[by].by, a.cells[by].by), strings.Compare(a.key, b.key))
	})
}

// narrow leaves those entries of which a text contains the filter, whatever the case of letters.
func (t *table) narrow(filter string) {
	if filter == "" || len(t.entries) == 0 {
		return
	}
	t.nothing = "no line has this text"
	filter = strings.ToLower(filter)
	t.entries = slices.DeleteFunc(t.entries, func(e entry) bool {
		return !slices.ContainsFunc(e.cells, func(c cell) bool { return strings.Contains(strings.ToLower(c.text), filter) })
	})
}

// leastName is the least room of the names, in cells, while there are other columns to leave out.
const leastName = 26

// widths distributes the cells of a line. A column that is left out has none.
func (t *table) widths(room int) []int {
	out, sum := make([]int, len(t.columns)), 0
	for n, c := range t.columns[:len(t.columns)-1] {
		out[n] = c.width
		sum += c.width + 1
	}
	for sum+min(leastName, room/2) > room {
		first, rank := -1, 0
		for n, c := range t.columns[:len(t.columns)-1] {
			if out[n] > 0 && c.rank >= rank {
				first, rank = n, c.rank
			}
		}
		if first < 0 {
			break
		}
		sum -= out[first] + 1
		out[first] = 0
	}
	for n, c := range t.columns {
		if more := min(c.most-c.width, room-sum-2*leastName); out[n] > 0 && more > 0 {
			out[n] += more
			sum += more
		}
	}
	out[len(out)-1] = max(0, room-sum)
	return out
}

// marks are at the beginning of each line of a table.
const marked, unmarked = "> ", "  "

// lines draws the table with its heading in so many lines; chosen is the entry that is marked, -1 is none, and sorted the column that it is sorted
// by.
func (t *table) lines(room, height, chosen, sorted int) []line {
	if height < 1 {
		return nil
	}
	if sorted >= 0 {
		t.columns[sorted].rank = 0 // what entries are sorted by is seen
	}
	widths := t.widths(room - len(unmarked))
	heading := line{span{unmarked, plainly}}
	for n, c := range t.columns {
		if widths[n] == 0 {
			continue
		}
		s := styled(bold, "%s", c.title)
		if n == sorted && !t.unsorted {
			s = styled(cyan, "%s▾", c.title)
		}
		heading = append(heading, span{padded(s.text, widths[n], !c.left), s.style}, span{" ", plainly})
	}
	out := []line{heading}
	if len(t.entries) == 0 && height > 1 {
		return append(out, line{styled(dim, unmarked+"%s", t.nothing)})
	}
	first := max(0, chosen-height+2)
	for n := first; n < min(len(t.entries), first+height-1); n++ {
		out = append(out, t.line(&t.entries[n], widths, n == chosen))
	}
	return out
}

func (t *table) line(e *entry, widths []int, chosen bool) line {
	l, mark := line{}, unmarked
	if chosen {
		mark = marked
	}
	l = append(l, span{mark, plainly})
	for n, c := range e.cells {
		if widths[n] == 0 {
			continue
		}
		s := styled(c.style, "%s", c.text)
		if c.values != nil {
			s = span{sparks(c.values[max(0, len(c.values)-widths[n]):]), cyan}
		}
		l = append(l, span{padded(s.text, widths[n], !t.columns[n].left), s.style}, span{" ", plainly})
	}
	if chosen {
		for n := range l {
			l[n].style = reversed
		}
	}
	return l
}
