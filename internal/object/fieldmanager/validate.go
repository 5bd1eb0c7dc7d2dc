package fieldmanager

import "slices"

// valid reports whether an untyped value is of a type. Go values are.
func (w *walker) valid(t *fieldType, v *val, duplicates bool) bool {
	switch s := t.of(v.kind); {
	case s&objectShape != 0:
		return v.kind == null || v.kind == object && w.validFields(t.object, v, duplicates)
	case s&scalarShape != 0:
		return t.fits(v.kind)
	case s&listShape != 0:
		return v.kind == null || v.kind == list && w.validItems(t.list, v, duplicates)
	}
	return false
}

func (w *walker) validFields(t *objectType, v *val, duplicates bool) bool {
	var of val
	for name, f := range v.any.(map[string]any) {
		ref := t.field(name)
		if ref == nil {
			return false
		}
		of = w.read(v.typ, f)
		if !w.valid(w.types.get(ref), &of, duplicates) {
			return false
		}
	}
	return true
}

// validItems checks also that items can be told from each other, and unless duplicates are allowed that each is there once.
func (w *walker) validItems(t *listType, v *val, duplicates bool) bool {
	of := w.types.get(&t.items)
	mark := len(w.items)
	var it val
	for i := range v.len() {
		it = w.at(v, i)
		if t.associative {
			e := w.elementOf(t, &it)
			w.items = append(w.items, item{elem: e})
		}
		if w.odd || !w.valid(of, &it, duplicates) {
			return false
		}
	}
	items := w.items[mark:]
	w.items = w.items[:mark]
	return duplicates || !repeated(items)
}

func repeated(items []item) bool {
	slices.SortFunc(items, func(a, b item) int { return a.elem.compare(b.elem) })
	for i := 1; i < len(items); i++ {
		if items[i-1].elem.compare(items[i].elem) == 0 {
			return true
		}
	}
	return false
}

// fits reports whether the fields of a manager are as the type has them. They are not where the type has changed since:
// where what was a field of its own is now one with those below it, or the other way round. Such sets the library mends.
// leaf says that the field itself is in the set, and none below it.
func (ts *types) fits(t *fieldType, s set, leaf bool) bool {
	switch {
	case t.shapes&objectShape != 0:
		return ts.settledFields(t.object, s, leaf)
	case t.shapes&scalarShape != 0:
		return true
	case t.shapes&listShape != 0:
		if t.list.atomic {
			return leaf
		}
		of := ts.get(&t.list.items)
		for i := range s {
			if !ts.fits(of, s[i].below, s[i].member && len(s[i].below) == 0) {
				return false
			}
		}
		return true
	}
	return false
}

func (ts *types) settledFields(t *objectType, s set, leaf bool) bool {
	switch {
	case t.free:
		return true
	case t.atomic:
		return leaf || len(s) == 0
	}
	for i := range s {
		ref := t.others
		if s[i].elem.kind == byField {
			ref = t.field(s[i].elem.name)
		}
		if ref != nil && !ts.fits(ts.get(ref), s[i].below, s[i].member && len(s[i].below) == 0) {
			return false
		}
	}
	return true
}
