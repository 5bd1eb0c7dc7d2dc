package fieldmanager

import "slices"

// fieldsOf returns the fields of an applied value: whether it is one itself, and those below it. No item is in a list twice.
func (w *walker) fieldsOf(t *fieldType, v *val) (self bool, below set) {
	switch s := t.of(v.kind); {
	case s&objectShape != 0:
		return w.fieldsOfObject(t.object, v)
	case s&scalarShape != 0:
		return true, nil
	case s&listShape != 0:
		return w.fieldsOfList(t.list, v)
	}
	w.odd = true
	return false, nil
}

func (w *walker) fieldsOfObject(t *objectType, v *val) (self bool, below set) {
	if t.atomic || v.kind != object {
		return t.atomic, nil
	}
	mark := len(w.stack[decoding])
	p := w.pairs(v, &val{}, t)
	for p.next(w) {
		if p.ref == nil {
			w.odd = true
			continue
		}
		member, fields := w.fieldsOf(w.types.get(p.ref), &p.l)
		// An entry of a map is a field itself, other than a field of a struct.
		member = member || p.ref == t.others || p.l.kind == null || p.l.kind == object && w.isEmpty(&p.l)
		if member || len(fields) > 0 {
			w.stack[decoding] = append(w.stack[decoding], node{element{name: p.name}, member, fields})
		}
	}
	p.end(w)
	return false, w.pop(decoding, mark)
}

func (w *walker) fieldsOfList(t *listType, v *val) (self bool, below set) {
	if t.atomic || v.kind != list {
		return t.atomic, nil
	}
	items := w.sorted(t, v)
	if w.odd {
		return false, nil
	}
	mark := len(w.stack[decoding])
	var it val
	for _, i := range items {
		it = w.at(v, i.index)
		_, fields := w.fieldsOf(w.types.get(&t.items), &it)
		w.stack[decoding] = append(w.stack[decoding], node{i.elem, true, fields})
	}
	w.items = w.items[:len(w.items)-len(items)]
	return false, w.pop(decoding, mark)
}

// sorted returns the items of a list by their elements. The caller takes them off w.items.
func (w *walker) sorted(t *listType, v *val) []item {
	mark := len(w.items)
	w.index(t, v, false)
	items := w.items[mark:]
	slices.SortFunc(items, func(a, b item) int { return a.elem.compare(b.elem) })
	return items
}

func (w *walker) isEmpty(v *val) bool {
	p := w.pairs(v, &val{}, nil)
	defer p.end(w)
	return !p.next(w)
}

// alike reports whether a value of a live object and one that is applied are the same in JSON.
func (w *walker) alike(live, config *val) bool {
	if live.kind != config.kind {
		return false
	}
	switch live.kind {
	case list:
		if live.len() != config.len() {
			return false
		}
		var a, b val
		for i := range live.len() {
			a, b = w.at(live, i), w.at(config, i)
			if !w.alike(&a, &b) {
				return false
			}
		}
		return true
	case object:
		return w.alikeObjects(live, config)
	}
	return w.equal(live, config)
}

func (w *walker) alikeObjects(live, config *val) bool {
	p := w.pairs(live, &val{}, nil)
	defer p.end(w)
	n := 0
	var applied val
	for ; p.next(w); n++ {
		applied = w.fieldNamed(config, p.name)
		if !w.alike(&p.l, &applied) {
			return false
		}
	}
	return n == len(config.any.(map[string]any))
}
