package fieldmanager

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// walker walks objects. What it makes belongs to it until the end of a write.
type walker struct {
	versions Versions // of the write
	types    *types
	// odd says that the objects or sets have something for which the library is to be asked.
	odd bool

	// hollow says that something empty was merged into what is not.
	hollow bool
	// filled says that a Go object was made of a configuration and has fields that are not in that, because they are never left out.
	filled bool
	edits  int // how much of the object that a write makes was changed

	// stack holds the nodes of sets that are being made. They are moved to nodes when a set is complete.
	stack [decoding + 1][]node
	nodes slab[node]
	key   slab[keyField]
	json  []byte // a set that is being written

	names      []string // of maps that are being walked
	items      []item   // of lists that are being walked
	quantities [2]resource.Quantity
}

// The stacks of walker. The first three are what a comparison results in.
const (
	added = iota
	modified
	removed
	decoding
)

// pop makes a set of the nodes on a stack above mark.
func (w *walker) pop(stack, mark int) set {
	s := w.stack[stack][mark:]
	w.stack[stack] = w.stack[stack][:mark]
	return w.nodes.keep(s)
}

// keys keeps the fields of a key.
func (w *walker) keys(fields ...keyField) []keyField { return w.key.keep(fields) }

// change is how a field differs: which of added, modified and removed it is itself, and what is below it.
type change struct {
	self  [removed + 1]bool
	below [removed + 1]set
}

// compare compares two values of a type. One of them may be absent.
func (w *walker) compare(t *fieldType, l, r *val) (c change) {
	leaf := false
	switch left, right := t.of(l.kind), t.of(r.kind); {
	case r.kind == absent:
		leaf = w.compareAs(t, left, l, r, &c)
	case l.kind == absent || left == right:
		leaf = w.compareAs(t, right, l, r, &c)
	default:
		w.compareAs(t, left, l, r, &c)
		leaf = w.compareAs(t, right, l, r, &c)
	}
	if !leaf {
		c.self[added] = c.self[added] || l.kind == absent
		c.self[removed] = c.self[removed] || r.kind == absent
	}
	return c
}

// compareAs compares two values as one of some shapes, and reports whether they are one field, with none below it.
func (w *walker) compareAs(t *fieldType, s shapes, l, r *val, c *change) bool {
	switch {
	case s&objectShape != 0:
		return w.compareObjects(t.object, l, r, c)
	case s&scalarShape != 0:
		w.odd = w.odd || !t.fits(l.kind) && !t.fits(r.kind)
		return w.compareLeaves(l, r, c)
	case s&listShape != 0:
		return w.compareLists(t.list, l, r, c)
	}
	w.odd = true
	return true
}

func (w *walker) compareLeaves(l, r *val, c *change) bool {
	switch {
	case l.kind == absent:
		c.self[added] = true
	case r.kind == absent:
		c.self[removed] = true
	case !w.equal(l, r):
		c.self[modified] = true
	}
	return true
}

func (w *walker) compareObjects(t *objectType, l, r *val, c *change) (leaf bool) {
	if t.atomic {
		return w.compareLeaves(l, r, c)
	}
	b := w.begin()
	p := w.pairs(l, r, t)
	any := false
	for p.next(w) {
		any = true
		if p.ref == nil {
			w.odd = true
			continue
		}
		of := w.types.get(p.ref)
		if w.unchanged(of, &p.l, &p.r) {
			continue
		}
		below := w.compare(of, &p.l, &p.r)
		w.push(element{name: p.name}, &below)
	}
	p.end(w)
	if !any {
		// Two that are empty are compared themselves, because an empty object is not null.
		return w.compareLeaves(l, r, c)
	}
	w.finish(b, c)
	return false
}

// begun marks where on the stacks the fields below a field begin.
type begun [removed + 1]int

func (w *walker) begin() (b begun) {
	for i := range b {
		b[i] = len(w.stack[i])
	}
	return b
}

func (w *walker) push(e element, c *change) {
	for i := range c.self {
		if c.self[i] || len(c.below[i]) > 0 {
			w.stack[i] = append(w.stack[i], node{e, c.self[i], c.below[i]})
		}
	}
}

func (w *walker) finish(b begun, c *change) {
	for i := range b {
		if s := w.pop(i, b[i]); len(s) > 0 {
			c.below[i] = s
		}
	}
}

// item is an item of a list.
type item struct {
	elem  element
	index int
	right bool
}

func (w *walker) compareLists(t *listType, l, r *val, c *change) (leaf bool) {
	if t.atomic || l.len() == 0 && r.len() == 0 {
		return w.compareLeaves(l, r, c)
	}
	mark := len(w.items)
	w.index(t, l, false)
	w.index(t, r, true)
	items := w.items[mark:]
	slices.SortStableFunc(items, func(a, b item) int { return a.elem.compare(b.elem) })
	b := w.begin()
	for len(items) > 0 && !w.odd {
		n := 1
		for n < len(items) && items[n].elem.compare(items[0].elem) == 0 {
			n++
		}
		below := w.compareItems(t, l, r, items[:n])
		w.push(items[0].elem, &below)
		items = items[n:]
	}
	w.items = w.items[:mark]
	w.finish(b, c)
	return false
}

// index finds the elements of a list's items.
func (w *walker) index(t *listType, v *val, right bool) {
	for i := range v.len() {
		it := w.at(v, i)
		e := w.elementOf(t, &it)
		if w.odd {
			return
		}
		w.items = append(w.items, item{e, i, right})
	}
}

// compareItems compares the items of one element: first those on the left, then those on the right. There may be several,
// as nothing keeps a list of an update from naming an item twice.
func (w *walker) compareItems(t *listType, l, r *val, items []item) (c change) {
	n := 0
	for n < len(items) && !items[n].right {
		n++
	}
	left, right := items[:n], items[n:]
	var first, other val
	if len(left) > 0 {
		first = w.at(l, left[0].index)
	}
	if len(right) > 0 {
		other = w.at(r, right[0].index)
	}
	switch of := w.types.get(&t.items); {
	case len(left) <= 1 && len(right) <= 1:
		return w.compare(of, &first, &other)
	case len(left) > 1 && len(right) > 1:
		c.self[modified] = !w.equalItems(l, r, left, right)
	case len(left) > 1:
		if len(right) > 0 {
			c = w.compare(of, &val{}, &other)
		}
		c.self[removed] = true
	default:
		if len(left) > 0 {
			c = w.compare(of, &first, &val{})
		}
		c.self[added] = true
	}
	return c
}

func (w *walker) equalItems(l, r *val, left, right []item) bool {
	if len(left) != len(right) {
		return false
	}
	for i := range left {
		a, b := w.at(l, left[i].index), w.at(r, right[i].index)
		if !w.equal(&a, &b) {
			return false
		}
	}
	return true
}

// elementOf returns the element of a list's item. The library refuses an item without one.
func (w *walker) elementOf(t *listType, v *val) (e element) {
	if !t.associative {
		w.odd = true
		return e
	}
	if len(t.keys) == 0 {
		return element{kind: byValue, key: w.keys(keyField{value: w.scalar(v)})}
	}
	if v.kind != object || len(t.keys) > maxKeys {
		w.odd = true
		return e
	}
	var fields [maxKeys]keyField
	n := 0
	for _, k := range t.keys {
		f := w.fieldNamed(v, k.name)
		if f.kind == absent {
			if k.def == nil {
				continue
			}
			f = w.read(nil, k.def)
		}
		fields[n] = keyField{k.name, w.scalar(&f)}
		n++
	}
	w.odd = w.odd || n == 0
	return element{kind: byKey, key: w.keys(fields[:n]...)}
}

// maxKeys is how many fields the key of a list may have.
const maxKeys = 8

func (w *walker) scalar(v *val) scalar {
	switch v.kind {
	case text:
		return scalar{kind: isText, text: v.text()}
	case boolean:
		return truth(v.bool())
	case number:
		n, f, isInt := v.number()
		s, ok := exact(n)
		if !isInt {
			s, ok = exactFloat(f)
		}
		w.odd = w.odd || !ok
		return s
	}
	w.odd = true
	return scalar{}
}
