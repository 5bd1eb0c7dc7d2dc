package fieldmanager

import (
	"bytes"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// This file finds what a write leaves as it is. Most of an object is, in most writes, and to see that is cheaper than to compare
// its fields one by one: items of lists need not be paired by their keys.

// unchanged reports whether two values are the same, and of types for which the library would not be asked whatever they hold.
func (w *walker) unchanged(t *fieldType, l, r *val) bool {
	if l.kind != r.kind || l.kind != object && l.kind != list || l.untyped() || r.untyped() || l.typ != r.typ {
		return false
	}
	return w.types.tame.is(w.types, l.typ, t) && l.typ.same(l.rv, r.rv)
}

// same reports whether two values of a type are the same in all that may show in JSON. It may report false although they are.
func (t *goType) same(a, b reflect.Value) bool {
	switch t.form {
	case pointerForm:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return a.Pointer() == b.Pointer() || t.elem.same(a.Elem(), b.Elem())
	case structForm:
		for i := range t.fields {
			if f := &t.fields[i]; !f.typ.same(f.in(a), f.in(b)) {
				return false
			}
		}
		return true
	case textsForm:
		return sameMaps(a.Interface().(map[string]string), b.Interface().(map[string]string))
	case quantitiesForm:
		return sameMaps(a.Interface().(corev1.ResourceList), b.Interface().(corev1.ResourceList))
	case bytesForm:
		return a.IsNil() == b.IsNil() && bytes.Equal(a.Bytes(), b.Bytes())
	case timeForm:
		return timeOf(a).Time == timeOf(b).Time
	case microTimeForm:
		return microTimeOf(a).Time == microTimeOf(b).Time
	case quantityForm:
		return *of[resource.Quantity](a) == *of[resource.Quantity](b)
	case durationForm:
		return *of[metav1.Duration](a) == *of[metav1.Duration](b)
	case intOrStringForm:
		v := of[intstr.IntOrString](a)
		return *v == *of[intstr.IntOrString](b) && (v.Type == intstr.Int || v.Type == intstr.String)
	case plainForm:
		return t.samePlain(a, b)
	}
	return false
}

func (t *goType) samePlain(a, b reflect.Value) bool {
	switch t.kind {
	case boolean:
		return a.Bool() == b.Bool()
	case text:
		return a.String() == b.String()
	case number:
		return a.Equal(b)
	case list:
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			return false
		}
		for i := range a.Len() {
			if !t.elem.same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	return false
}

func sameMaps[K, V comparable](a, b map[K]V) bool {
	if len(a) != len(b) || (a == nil) != (b == nil) {
		return false
	}
	for name, v := range a {
		if other, ok := b[name]; !ok || other != v {
			return false
		}
	}
	return true
}

// in returns the field of a struct, whether it is left out or not.
func (f *goField) in(v reflect.Value) reflect.Value {
	if f.index == byEntry {
		return f.entry.GetFrom(v)
	}
	return v.Field(f.index)
}

// tameness knows the types of Go whose values never have anything for which the library is to be asked. What they may have then
// depends on the types of field management that they are of.
type tameness struct {
	known sync.Map // of typePair to bool
}

type typePair struct {
	goType *goType
	typ    *fieldType
}

func (k *tameness) is(ts *types, g *goType, t *fieldType) bool {
	pair := typePair{g, t}
	if v, ok := k.known.Load(pair); ok {
		return v.(bool)
	}
	v := ts.isTame(g, t, nil)
	k.known.Store(pair, v)
	return v
}

// isTame finds out about a pair of types. Those that contain themselves are not tame.
func (ts *types) isTame(g *goType, t *fieldType, within []typePair) bool {
	pair := typePair{g, t}
	if slices.Contains(within, pair) {
		return false
	}
	within = append(within, pair)
	if (g.form == structForm || g.form == textsForm || g.form == quantitiesForm) && t.shapes&objectShape != 0 && t.object.atomic {
		return g.isWalked(nil) // and compared by what it holds, not by types
	}
	switch g.form {
	case pointerForm:
		return ts.isTame(g.elem, t, within)
	case structForm:
		if t.shapes&objectShape == 0 {
			return false
		}
		for i := range g.fields {
			ref := t.object.field(g.fields[i].name)
			if ref == nil || !ts.isTame(g.fields[i].typ, ts.get(ref), within) {
				return false
			}
		}
		return true
	case textsForm, quantitiesForm:
		return t.shapes&objectShape != 0 && len(t.object.fields) == 0 && t.object.others != nil &&
			ts.isTame(g.elem, ts.get(t.object.others), within)
	case bytesForm, timeForm, microTimeForm, quantityForm, durationForm:
		return t.isScalar(text)
	case intOrStringForm:
		return t.isScalar(text) && t.isScalar(number)
	case plainForm:
		if g.kind == list {
			return ts.isTameList(g, t, within)
		}
		return t.isScalar(g.kind)
	}
	return false
}

func (t *fieldType) isScalar(k kind) bool {
	return t.shapes&scalarShape != 0 && t.of(k) == scalarShape && t.fits(k)
}

// isTameList finds out about a list: each of its items has to have a key.
func (ts *types) isTameList(g *goType, t *fieldType, within []typePair) bool {
	if t.shapes&listShape == 0 {
		return false
	}
	l, items := t.list, g.elem
	switch {
	case l.atomic:
		return true // it is compared as Go does
	case !l.associative || len(l.keys) > maxKeys:
		return false
	case len(l.keys) == 0:
		return items.form == plainForm && items.kind == text && ts.isTame(items, ts.get(&l.items), within)
	}
	if items.form != structForm || !ts.isTame(items, ts.get(&l.items), within) {
		return false
	}
	always := false
	for _, k := range l.keys {
		f := items.field(k.name)
		if f == nil || !f.typ.isPlain() {
			return false
		}
		always = always || f.omit == omitNever
	}
	return always
}

// isWalked says that there is nothing in a value that has an encoding of its own.
func (t *goType) isWalked(within []*goType) bool {
	if slices.Contains(within, t) {
		return true // of what it contains, the rest decides
	}
	within = append(within, t)
	return t.form != jsonForm && (t.elem == nil || t.elem.isWalked(within)) &&
		!slices.ContainsFunc(t.fields, func(f goField) bool { return !f.typ.isWalked(within) })
}

// isPlain says that values are scalars as Go has them.
func (t *goType) isPlain() bool {
	return t.form == plainForm && (t.kind == text || t.kind == number || t.kind == boolean)
}
