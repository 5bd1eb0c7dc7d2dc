package fieldmanager

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// pairs goes through the fields of two objects in the order of their names. Either may be no object, and then has none.
type pairs struct {
	name string
	ref  *typeRef // of the field; nil: the type has none
	// l and r are the field's values. One may be absent.
	l, r val

	left, right val // absent: no object
	typ         *objectType
	goType      *apitype.Type // of both; nil: untyped
	at          int           // the next field
	inType      int           // the next field of typ, for structs
	names       []string
	mark        int
}

// pairs begins to go through two objects, with types if there is one of the objects.
func (w *walker) pairs(l, r *val, t *objectType) pairs {
	p := pairs{typ: t, mark: len(w.names)}
	if l.kind == object {
		p.left, p.goType = *l, goTypeOf(l)
	}
	if r.kind == object {
		if p.left.kind != absent && p.goType != goTypeOf(r) {
			w.odd = true
			return p
		}
		p.right, p.goType = *r, goTypeOf(r)
	}
	if p.goType == nil || p.goType.Kind != apitype.Struct {
		p.gather(w)
	}
	return p
}

func goTypeOf(v *val) *apitype.Type {
	if v.untyped() {
		return nil
	}
	return v.typ
}

// gather sorts the names of both objects, which are maps.
func (p *pairs) gather(w *walker) {
	w.gather(&p.left)
	n := len(w.names)
	w.gather(&p.right)
	p.names = w.names[p.mark:]
	slices.Sort(p.names)
	if n > p.mark && len(w.names) > n {
		p.names = slices.Compact(p.names)
	}
}

func (w *walker) gather(v *val) {
	switch {
	case v.kind == absent:
	case v.untyped():
		for name := range v.any.(map[string]any) {
			w.names = append(w.names, name)
		}
	case v.typ.Kind == apitype.Strings:
		for name := range v.rv.Interface().(map[string]string) {
			w.names = append(w.names, name)
		}
	case v.typ.Kind == apitype.Quantities:
		for name := range v.rv.Interface().(corev1.ResourceList) {
			w.names = append(w.names, string(name))
		}
	default:
		for i := v.rv.MapRange(); i.Next(); {
			w.names = append(w.names, i.Key().String())
		}
	}
}

// next goes to the next field that at least one of the objects has.
func (p *pairs) next(w *walker) bool {
	if p.goType != nil && p.goType.Kind == apitype.Struct {
		return p.nextOfStruct(w)
	}
	if p.at == len(p.names) {
		return false
	}
	p.name = p.names[p.at]
	p.at++
	p.l = w.lookup(&p.left, p.name, 0)
	p.r = w.lookup(&p.right, p.name, 1)
	if p.typ != nil {
		p.ref = p.typ.field(p.name)
	}
	return true
}

// end forgets the names. It is called before those of the objects that these belong to are used again.
func (p *pairs) end(w *walker) { w.names = w.names[:p.mark] }

// lookup returns an entry of a map; side is 0 or 1.
func (w *walker) lookup(v *val, name string, side int) val {
	switch {
	case v.kind == absent:
		return val{}
	case v.untyped():
		if e, ok := v.any.(map[string]any)[name]; ok {
			return w.read(v.typ, e)
		}
		return val{}
	case v.typ.Kind == apitype.Strings:
		s, ok := v.rv.Interface().(map[string]string)[name]
		if !ok {
			return val{}
		}
		return val{kind: text, typ: heldText, held: s}
	case v.typ.Kind == apitype.Quantities:
		q, ok := v.rv.Interface().(corev1.ResourceList)[corev1.ResourceName(name)]
		if !ok {
			return val{}
		}
		w.quantities[side] = q
		return w.load(v.typ.Elem, reflect.ValueOf(&w.quantities[side]).Elem())
	}
	e := v.rv.MapIndex(keyOf(v.typ, name))
	if !e.IsValid() {
		return val{}
	}
	return w.load(v.typ.Elem, e)
}

// nextOfStruct goes through the fields of structs, which are sorted, as those of the type are.
func (p *pairs) nextOfStruct(w *walker) bool {
	for p.at < len(p.goType.Sorted) {
		f := p.goType.Sorted[p.at]
		p.at++
		var l, r reflect.Value
		var onLeft, onRight bool
		if p.left.kind != absent {
			l, onLeft = fieldIn(p.left.rv, f)
		}
		if p.right.kind != absent {
			r, onRight = fieldIn(p.right.rv, f)
		}
		if !onLeft && !onRight {
			continue
		}
		p.l, p.r = w.loadIf(onLeft, f.Type, l), w.loadIf(onRight, f.Type, r)
		p.name = f.Name
		if p.typ != nil {
			p.ref = p.typ.others
			for p.inType < len(p.typ.fields) && p.typ.fields[p.inType].name < f.Name {
				p.inType++
			}
			if p.inType < len(p.typ.fields) && p.typ.fields[p.inType].name == f.Name {
				p.ref = &p.typ.fields[p.inType].typeRef
			}
		}
		return true
	}
	return false
}

func (w *walker) loadIf(there bool, t *apitype.Type, rv reflect.Value) val {
	if !there {
		return val{}
	}
	return w.load(t, rv)
}

// fieldNamed returns a field of an object.
func (w *walker) fieldNamed(v *val, name string) val {
	if v.untyped() || v.typ.Kind != apitype.Struct {
		return w.lookup(v, name, 0)
	}
	f := v.typ.Member(name)
	if f == nil {
		return val{}
	}
	rv, there := fieldIn(v.rv, f)
	return w.loadIf(there, f.Type, rv)
}
