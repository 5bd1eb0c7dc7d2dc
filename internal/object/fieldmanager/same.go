package fieldmanager

import (
	"slices"
	"sync"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
	"github.com/kanzen-io/kanzen/internal/object/equal"
)

// This file finds what a write leaves as it is. Most of an object is, in most writes, and to see that is cheaper than to compare
// its fields one by one: items of lists need not be paired by their keys.

// unchanged reports whether two values are the same, and of types for which the library would not be asked whatever they hold.
func (w *walker) unchanged(t *fieldType, l, r *val) bool {
	if l.kind != r.kind || l.kind != object && l.kind != list || l.untyped() || r.untyped() || l.typ != r.typ {
		return false
	}
	return w.types.tame.is(w.types, l.typ, t) && equal.Same(l.typ, l.rv, r.rv)
}

// tameness knows the types of Go whose values never have anything for which the library is to be asked. What they may have then
// depends on the types of field management that they are of.
type tameness struct {
	known sync.Map // of typePair to bool
}

type typePair struct {
	goType *apitype.Type
	typ    *fieldType
}

func (k *tameness) is(ts *types, g *apitype.Type, t *fieldType) bool {
	pair := typePair{g, t}
	if v, ok := k.known.Load(pair); ok {
		return v.(bool)
	}
	v := ts.isTame(g, t, nil)
	k.known.Store(pair, v)
	return v
}

// isTame finds out about a pair of types. Those that contain themselves are not tame.
func (ts *types) isTame(g *apitype.Type, t *fieldType, within []typePair) bool {
	pair := typePair{g, t}
	if slices.Contains(within, pair) {
		return false
	}
	within = append(within, pair)
	if kinds[g.Kind] == object && g.Kind != apitype.Map && t.shapes&objectShape != 0 && t.object.atomic {
		return g.Holds&apitype.HoldsOwn == 0 // and compared by what it holds, not by types
	}
	switch g.Kind {
	case apitype.Pointer:
		return ts.isTame(g.Elem, t, within)
	case apitype.Struct:
		if t.shapes&objectShape == 0 {
			return false
		}
		for i := range g.Members {
			ref := t.object.field(g.Members[i].Name)
			if ref == nil || !ts.isTame(g.Members[i].Type, ts.get(ref), within) {
				return false
			}
		}
		return true
	case apitype.Strings, apitype.Quantities:
		return t.shapes&objectShape != 0 && len(t.object.fields) == 0 && t.object.others != nil &&
			ts.isTame(g.Elem, ts.get(t.object.others), within)
	case apitype.IntOrString:
		return t.isScalar(text) && t.isScalar(number)
	case apitype.List:
		return ts.isTameList(g, t, within)
	}
	k := kinds[g.Kind]
	return (k == boolean || k == number || k == text) && t.isScalar(k)
}

func (t *fieldType) isScalar(k kind) bool {
	return t.shapes&scalarShape != 0 && t.of(k) == scalarShape && t.fits(k)
}

// isTameList finds out about a list: each of its items has to have a key.
func (ts *types) isTameList(g *apitype.Type, t *fieldType, within []typePair) bool {
	if t.shapes&listShape == 0 {
		return false
	}
	l, items := t.list, g.Elem
	switch {
	case l.atomic:
		return true // it is compared as Go does
	case !l.associative || len(l.keys) > maxKeys:
		return false
	case len(l.keys) == 0:
		return items.Kind == apitype.String && ts.isTame(items, ts.get(&l.items), within)
	}
	if items.Kind != apitype.Struct || !ts.isTame(items, ts.get(&l.items), within) {
		return false
	}
	always := false
	for _, k := range l.keys {
		f := items.Member(k.name)
		if f == nil || !isScalar(f.Type) {
			return false
		}
		always = always || isAlways(f)
	}
	return always
}

// isScalar says that values are scalars as Go has them.
func isScalar(t *apitype.Type) bool { return apitype.Bool <= t.Kind && t.Kind <= apitype.String }
