package fieldmanager

import "slices"

// merge merges a configuration into a value of the object that is to be stored, and returns what changes by that. It walks
// what the configuration names and nothing else.
func (w *walker) merge(t *fieldType, live, config *val) (c change, e edited) {
	if live.kind == absent {
		return w.replace(t, live, config)
	}
	s := t.of(config.kind)
	if s != t.of(live.kind) {
		w.odd = true // a value has become one of another shape
		return c, e
	}
	switch {
	case s&objectShape != 0:
		return w.mergeObjects(t, live, config)
	case s&scalarShape != 0:
		return w.mergeLeaves(live, config)
	case s&listShape != 0:
		return w.mergeLists(t, live, config)
	}
	w.odd = true
	return c, e
}

// replace takes a configuration as it is, in the place of nothing or of a value without fields.
func (w *walker) replace(t *fieldType, live, config *val) (change, edited) {
	w.edits++
	return w.compare(t, live, config), edited{true, config.any}
}

func (w *walker) mergeLeaves(live, config *val) (c change, e edited) {
	if w.alike(live, config) {
		return c, e
	}
	w.edits++
	c.self[modified] = true
	return c, edited{true, config.any}
}

func (w *walker) mergeObjects(t *fieldType, live, config *val) (c change, e edited) {
	if t.object.atomic {
		return w.mergeLeaves(live, config)
	}
	none := live.kind != object || w.isEmpty(live)
	switch empty := config.kind != object || w.isEmpty(config); {
	case none && empty:
		return w.mergeLeaves(live, config)
	case empty:
		w.hollow = true // an object is not emptied by merging
		return c, e
	case live.kind != object:
		return w.replace(t, live, config)
	}
	b := w.begin()
	p := w.pairs(&val{}, config, t.object)
	for !w.odd && p.next(w) {
		if p.ref == nil {
			w.odd = true
			break
		}
		now, at := w.fieldOf(live, p.name)
		edits := w.edits
		below, e := w.merge(w.types.get(p.ref), &now, &p.r)
		if w.edits > edits {
			w.setField(live, p.name, at, &now, e)
		}
		w.push(element{name: p.name}, &below)
	}
	p.end(w)
	w.finish(b, &c)
	return c, e
}

func (w *walker) mergeLists(t *fieldType, live, config *val) (c change, e edited) {
	switch {
	case t.list.atomic || live.len() == 0 && config.len() == 0:
		return w.mergeLeaves(live, config)
	case config.len() == 0:
		w.hollow = true
		return c, e
	case live.len() == 0:
		return w.replace(t, live, config)
	}
	mark := len(w.items)
	defer func() { w.items = w.items[:mark] }()
	w.index(t.list, live, false)
	w.index(t.list, config, true)
	if w.odd {
		return c, e
	}
	items := w.items[mark:]
	slices.SortStableFunc(items, func(a, b item) int { return a.elem.compare(b.elem) })
	m := newMatching(live.len(), config.len())
	b := w.begin()
	for len(items) > 0 && !w.odd {
		n := 1
		for n < len(items) && items[n].elem.compare(items[0].elem) == 0 {
			n++
		}
		below := w.mergeItems(t.list, live, config, items[:n], m)
		w.push(items[0].elem, &below)
		items = items[n:]
	}
	w.finish(b, &c)
	if w.odd {
		return c, e
	}
	return c, w.arrange(live, config, m.order())
}

// mergeItems merges the items of one element, of which each list has at most one.
func (w *walker) mergeItems(t *listType, live, config *val, items []item, m *matching) (c change) {
	of := w.types.get(&t.items)
	last := items[len(items)-1]
	switch {
	case len(items) == 1 && !last.right:
		return c
	case len(items) == 1:
		it := w.at(config, last.index)
		c, _ = w.replace(of, &val{}, &it)
		return c
	case len(items) > 2 || items[0].right || !last.right:
		w.odd = true // the live list has an item twice
		return c
	}
	m.match(items[0].index, last.index)
	now, at := w.itemOf(live, items[0].index)
	it := w.at(config, last.index)
	edits := w.edits
	c, e := w.merge(of, &now, &it)
	if w.edits > edits {
		w.setItem(live, items[0].index, at, &now, e)
	}
	return c
}

// arrange puts the items of a list in an order.
func (w *walker) arrange(live, config *val, order []pair) (e edited) {
	if inPlace(order, live.len()) {
		return e
	}
	w.edits++
	if live.untyped() {
		out := make([]any, len(order))
		for i, p := range order {
			if p.live >= 0 {
				out[i] = live.any.([]any)[p.live]
			} else {
				out[i] = config.any.([]any)[p.config]
			}
		}
		return edited{true, out}
	}
	out := reflectMake(live, len(order))
	for i, p := range order {
		if p.live >= 0 {
			out.Index(i).Set(live.rv.Index(p.live))
		} else {
			w.assign(live.typ.Elem, out.Index(i), config.any.([]any)[p.config])
		}
	}
	live.rv.Set(out)
	return e
}

func inPlace(order []pair, n int) bool {
	for i, p := range order {
		if p.live != i {
			return false
		}
	}
	return len(order) == n
}

// pair is an item of the outcome: that of the live list, of the configuration, or both. -1 is none.
type pair struct{ live, config int }

// matching says which items of two lists are the same.
type matching struct {
	config []int // by those of the live list; -1: none
	live   []int // by those of the configuration
}

func newMatching(live, config int) *matching {
	both := make([]int, live+config)
	for i := range both {
		both[i] = -1
	}
	return &matching{both[:live:live], both[live:]}
}

func (m *matching) match(live, config int) { m.config[live], m.live[config] = config, live }

// order is that of the library: items that both lists have are in the order of the configuration, and those that only one
// has come where they are in theirs.
func (m *matching) order() []pair {
	out := make([]pair, 0, len(m.config)+len(m.live))
	merged := make([]bool, len(m.live))
	shared := 0 // the next item of the configuration that both have
	skip := func() {
		for shared < len(m.live) && m.live[shared] < 0 {
			shared++
		}
	}
	skip()
	for l, r := 0, 0; l < len(m.config) || r < len(m.live); {
		if l < len(m.config) && r < len(m.live) {
			if m.config[l] == r {
				out, merged[r] = append(out, pair{l, r}), true
				l, r = l+1, r+1
				if shared < len(m.live) {
					shared++
					skip()
				}
				continue
			}
			if m.config[l] >= 0 && shared < len(m.live) && m.live[shared] != l {
				l++ // it comes later
				continue
			}
		}
		if l < len(m.config) {
			if m.config[l] < 0 {
				out = append(out, pair{l, -1})
				l++
				continue
			}
			if merged[m.config[l]] {
				l++
			}
		}
		if r < len(m.live) {
			out, merged[r] = append(out, pair{m.live[r], r}), true
			if shared == r {
				shared++
				skip()
			}
			r++
		}
	}
	return out
}
