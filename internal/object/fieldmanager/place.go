package fieldmanager

import (
	"reflect"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// place is where a field or an item is in the object that a write makes. Of an untyped object there is nothing to know.
type place struct {
	typ *apitype.Type
	rv  reflect.Value // can be set; of an entry of a map it is a copy
}

// fieldOf returns a field of an object and its place, whether the field is there or not.
func (w *walker) fieldOf(v *val, name string) (val, place) {
	if v.untyped() {
		return w.lookup(v, name, 0), place{}
	}
	if v.typ.Kind == apitype.Struct {
		f := v.typ.Member(name)
		if f == nil {
			w.odd = true
			return val{}, place{}
		}
		rv, there := fieldIn(v.rv, f)
		w.odd = w.odd || !rv.CanSet()
		return w.loadIf(there, f.Type, rv), place{f.Type, rv}
	}
	rv := reflect.New(v.typ.Elem.Go).Elem()
	e := v.rv.MapIndex(keyOf(v.typ, name))
	if !e.IsValid() {
		return val{}, place{v.typ.Elem, rv}
	}
	rv.Set(e)
	return w.load(v.typ.Elem, rv), place{v.typ.Elem, rv}
}

// itemOf returns an item of a list and its place.
func (w *walker) itemOf(v *val, i int) (val, place) {
	if v.untyped() {
		return w.at(v, i), place{}
	}
	rv := v.rv.Index(i)
	return w.load(v.typ.Elem, rv), place{v.typ.Elem, rv}
}

// edited is what has become of a value: it is edited where it is, or another is to be put in its place.
type edited struct {
	replaced bool
	by       any // untyped
}

// setField gives a field what has become of it. f is the field as it was edited.
func (w *walker) setField(v *val, name string, p place, f *val, e edited) {
	if w.odd {
		return
	}
	if v.untyped() {
		if e.replaced {
			v.any.(map[string]any)[name] = e.by
		}
		return
	}
	w.setPlace(p, f, e)
	if v.typ.Kind != apitype.Struct {
		v.rv.SetMapIndex(keyOf(v.typ, name), p.rv)
	}
}

// setItem gives an item what has become of it.
func (w *walker) setItem(v *val, i int, p place, it *val, e edited) {
	switch {
	case w.odd:
	case !v.untyped():
		w.setPlace(p, it, e)
	case e.replaced:
		v.any.([]any)[i] = e.by
	}
}

func (w *walker) setPlace(p place, v *val, e edited) {
	switch {
	case e.replaced:
		w.assign(p.typ, p.rv, e.by)
	case v.typ == made: // it was edited as it is encoded
		w.assign(p.typ, p.rv, v.any)
	}
}

// removeField takes a field off an object.
func (v *val) removeField(name string, p place) {
	switch {
	case v.untyped():
		delete(v.any.(map[string]any), name)
	case v.typ.Kind == apitype.Struct:
		p.rv.SetZero()
	default:
		v.rv.SetMapIndex(keyOf(v.typ, name), reflect.Value{})
	}
}
