package fieldmanager

import (
	"reflect"
	"slices"
)

// pruning is what there is to prune at a place in an object: what the manager has applied last time, and what is applied or
// owned now, by any.
type pruning struct {
	last, owned set
	// above says that a field above was applied, gone that one above is owned by nobody any more.
	above, gone bool
}

// below goes to a field or an item that was applied, or has something below it that was. It returns whether it was applied
// itself, and whether it is owned. What a type names counts so if something below it does.
func (p *pruning) below(n *node, named bool) (q pruning, applied, owned bool) {
	q = pruning{last: n.below}
	applied = n.member || named && len(n.below) > 0
	if o := p.owned.find(n.elem); o != nil {
		q.owned = o.below
		owned = o.member || named && len(o.below) > 0
	}
	q.above = p.above || applied
	q.gone = p.gone || q.above && !owned
	return q, applied, owned
}

// prune takes away what was applied and is owned no more. live has the configuration merged into it, and what both have stays.
// An object or a list of which nothing is left becomes null.
func (w *walker) prune(t *fieldType, live, config *val, p pruning) (c change, e edited) {
	switch s := t.of(live.kind); {
	case w.odd:
	case live.kind == object && s&objectShape != 0 && !t.object.atomic:
		return w.pruneFields(t.object, live, config, p)
	case live.kind == list && s == listShape && !t.list.atomic:
		if t.shapes != listShape {
			w.odd = true
			break
		}
		return w.pruneItems(t.list, live, config, p)
	}
	return c, e
}

func (w *walker) pruneFields(t *objectType, live, config *val, p pruning) (c change, e edited) {
	b := w.begin()
	had, gone := w.count(live), 0
	for i := range p.last {
		n := &p.last[i]
		if n.elem.kind != byField {
			continue
		}
		ref := t.field(n.elem.name)
		if ref == nil {
			continue
		}
		now, at := w.fieldOf(live, n.elem.name)
		if now.kind == absent || w.odd {
			continue
		}
		of := w.types.get(ref)
		q, applied, _ := p.below(n, ref != t.others)
		if q.gone {
			if !w.isField(of, &now, ref != t.others) {
				continue
			}
			if w.filled {
				w.odd = true // perhaps it is there because it cannot be left out, which the library finds out later
				break
			}
			if applied {
				below := w.compare(of, &now, &val{})
				w.push(n.elem, &below)
				live.removeField(n.elem.name, at)
				w.edits++
				gone++
				continue
			}
		}
		if applied && ref != t.others {
			if stays, fields := w.left(of, &now, q.owned); stays && !fields {
				w.odd = true // the library takes away what is left without fields, if it had some
				break
			}
		}
		it := val{}
		if config.kind == object {
			it = w.fieldNamed(config, n.elem.name)
		}
		edits := w.edits
		below, e := w.prune(of, &now, &it, q)
		if w.edits > edits {
			w.setField(live, n.elem.name, at, &now, e)
		}
		w.push(n.elem, &below)
	}
	w.finish(b, &c)
	return c, edited{replaced: gone > 0 && gone == had && (config.kind != object || w.isEmpty(config))}
}

func (w *walker) count(v *val) (n int) {
	p := w.pairs(v, &val{}, nil)
	for p.next(w) {
		n++
	}
	p.end(w)
	return n
}

// isField reports whether a value is in the set of an object's fields, or something below it.
func (w *walker) isField(t *fieldType, v *val, named bool) bool {
	if !named || v.kind == null {
		return true
	}
	switch s := t.of(v.kind); {
	case s&objectShape != 0 && !t.object.atomic:
		any := false
		p := w.pairs(v, &val{}, t.object)
		for p.next(w) {
			any = true
			if p.ref == nil || w.isField(w.types.get(p.ref), &p.l, p.ref != t.object.others) {
				p.end(w)
				return true
			}
		}
		p.end(w)
		return !any
	case s == listShape && !t.list.atomic:
		return v.len() > 0
	}
	return true
}

// left reports whether something is left of a value if all fields go that nobody owns, and whether there are fields in that.
// Empty lists are no fields.
func (w *walker) left(t *fieldType, v *val, owned set) (stays, fields bool) {
	if v.kind != object || t.shapes&objectShape == 0 || t.object.atomic {
		return true, true
	}
	p := w.pairs(v, &val{}, t.object)
	defer p.end(w)
	any := false
	for p.next(w) && !fields {
		any = true
		if p.ref == nil {
			w.odd = true
			break
		}
		of, named := w.types.get(p.ref), p.ref != t.object.others
		if !w.isField(of, &p.l, named) {
			stays = true
			continue
		}
		o := owned.find(element{name: p.name})
		if o == nil || !o.member && (!named || len(o.below) == 0) {
			continue
		}
		stays = true
		some, below := w.left(of, &p.l, o.below)
		fields = !named || below || !some
	}
	return stays || !any, fields || !any
}

func (w *walker) pruneItems(t *listType, live, config *val, p pruning) (c change, e edited) {
	mark := len(w.items)
	defer func() { w.items = w.items[:mark] }()
	items := w.sorted(t, live)
	configured := []item(nil)
	if config.kind == list {
		configured = w.sorted(t, config)
	}
	if w.odd || repeated(items) {
		w.odd = true
		return c, e
	}
	b := w.begin()
	gone := []int(nil)
	for i := range p.last {
		n := &p.last[i]
		at, ok := find(items, n.elem)
		if !ok {
			continue
		}
		below, remove := w.pruneItem(t, live, config, items[at].index, configured, n, p)
		if w.odd {
			return c, e
		}
		if remove {
			gone = append(gone, items[at].index)
		}
		w.push(n.elem, &below)
	}
	w.finish(b, &c)
	switch {
	case len(gone) == 0:
		return c, e
	case len(gone) == live.len():
		// What is configured is never pruned.
		w.edits++
		return c, edited{replaced: true}
	}
	return c, w.removeItems(live, gone)
}

func find(items []item, e element) (int, bool) {
	return slices.BinarySearchFunc(items, e, func(i item, e element) int { return i.elem.compare(e) })
}

// pruneItem prunes an item of a list, or reports that it is to be removed.
func (w *walker) pruneItem(t *listType, live, config *val, index int, configured []item, n *node, p pruning) (c change, remove bool) {
	now, place := w.itemOf(live, index)
	of := w.types.get(&t.items)
	q, applied, owned := p.below(n, false)
	switch {
	case !applied, !q.gone && (!owned || !w.ownsKey(t, &now, q.owned)):
		w.odd = true // the library would lose the key of an item that stays
		return c, false
	case q.gone:
		return w.compare(of, &now, &val{}), true
	}
	it := val{}
	if at, ok := find(configured, n.elem); ok {
		it = w.at(config, configured[at].index)
	}
	edits := w.edits
	c, e := w.prune(of, &now, &it, q)
	w.odd = w.odd || e.replaced // an item cannot be null
	if w.edits > edits {
		w.setItem(live, index, place, &now, e)
	}
	return c, false
}

// ownsKey reports whether somebody owns the fields of an item that are its key. They need not own what is by default.
func (w *walker) ownsKey(t *listType, it *val, owned set) bool {
	for _, k := range t.keys {
		f := w.fieldNamed(it, k.name)
		if f.kind == absent {
			continue
		}
		if k.def != nil {
			if def := w.read(nil, k.def); w.alike(&f, &def) {
				continue
			}
		}
		if n := owned.find(element{name: k.name}); n == nil || !n.member {
			return false
		}
	}
	return true
}

// removeItems takes items off a list.
func (w *walker) removeItems(live *val, gone []int) (e edited) {
	w.edits++
	if live.untyped() {
		out := make([]any, 0, live.len()-len(gone))
		for i, it := range live.any.([]any) {
			if !slices.Contains(gone, i) {
				out = append(out, it)
			}
		}
		return edited{true, out}
	}
	out := reflectMake(live, live.len()-len(gone))
	n := 0
	for i := range live.len() {
		if !slices.Contains(gone, i) {
			out.Index(n).Set(live.rv.Index(i))
			n++
		}
	}
	live.rv.Set(out)
	return e
}

// reflectMake makes a list of Go values like another.
func reflectMake(like *val, n int) reflect.Value { return reflect.MakeSlice(like.typ.Go, n, n) }
