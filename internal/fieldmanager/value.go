package fieldmanager

import (
	"bytes"
	"encoding/base64"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// val is a value in a Go object or in an untyped one.
type val struct {
	kind kind
	typ  *goType       // nil: of an untyped object
	rv   reflect.Value // of a Go object
	any  any           // of an untyped object, or one that was made
	held string        // a text of a map of texts
}

type kind byte

const (
	absent kind = iota
	null
	boolean
	number
	text
	list
	object
)

// load returns a value of a Go object.
func (w *walker) load(t *goType, rv reflect.Value) val {
	switch t.form {
	case pointerForm:
		if rv.IsNil() {
			return val{kind: null}
		}
		return w.load(t.elem, rv.Elem())
	case plainForm:
		if t.kind == list && rv.IsNil() {
			return val{kind: null}
		}
	case mapForm, textsForm, quantitiesForm, bytesForm:
		if rv.IsNil() {
			return val{kind: null}
		}
	case timeForm:
		if timeOf(rv).IsZero() {
			return val{kind: null}
		}
	case microTimeForm:
		if microTimeOf(rv).IsZero() {
			return val{kind: null}
		}
	case intOrStringForm:
		return w.loadIntOrString(t, rv)
	case jsonForm:
		v, err := t.entry.ToUnstructured(rv)
		w.odd = w.odd || err != nil
		return w.read(made, v)
	}
	return val{kind: t.kind, typ: t, rv: rv}
}

func (w *walker) loadIntOrString(t *goType, rv reflect.Value) val {
	switch of[intstr.IntOrString](rv).Type {
	case intstr.Int:
		return val{kind: number, typ: t, rv: rv}
	case intstr.String:
		return val{kind: text, typ: t, rv: rv}
	}
	w.odd = true
	return val{kind: null}
}

// read returns a value of an untyped object.
func (w *walker) read(t *goType, v any) val {
	out := val{typ: t, any: v}
	switch v.(type) {
	case nil:
		out.kind = null
	case bool:
		out.kind = boolean
	case int64, float64, int, int32:
		out.kind = number
	case string:
		out.kind = text
	case []any:
		out.kind = list
	case map[string]any:
		out.kind = object
	default:
		w.odd = true
		out.kind = null
	}
	return out
}

// of reads a Go value of type T without copying it to the heap where it has a place in memory.
func of[T any](rv reflect.Value) *T {
	if rv.CanAddr() {
		return rv.Addr().Interface().(*T)
	}
	v := rv.Interface().(T)
	return &v
}

func timeOf(rv reflect.Value) *metav1.Time           { return of[metav1.Time](rv) }
func microTimeOf(rv reflect.Value) *metav1.MicroTime { return of[metav1.MicroTime](rv) }

// untyped reports whether the content of v is in v.any.
func (v *val) untyped() bool { return v.typ == nil || v.typ.form == madeForm }

// text returns a text.
func (v *val) text() string {
	if v.untyped() {
		return v.any.(string)
	}
	switch v.typ.form {
	case bytesForm:
		return base64.StdEncoding.EncodeToString(v.rv.Bytes())
	case timeForm:
		return timeOf(v.rv).UTC().Format(time.RFC3339)
	case microTimeForm:
		return microTimeOf(v.rv).UTC().Format(metav1.RFC3339Micro)
	case durationForm:
		return of[metav1.Duration](v.rv).Duration.String()
	case quantityForm:
		return of[resource.Quantity](v.rv).String()
	case intOrStringForm:
		return of[intstr.IntOrString](v.rv).StrVal
	case heldForm:
		return v.held
	}
	return v.rv.String()
}

// number returns a number, as an integer if it is one by its type.
func (v *val) number() (n int64, f float64, isInt bool) {
	if v.untyped() {
		switch x := v.any.(type) {
		case int64:
			return x, 0, true
		case int:
			return int64(x), 0, true
		case int32:
			return int64(x), 0, true
		}
		return 0, v.any.(float64), false
	}
	switch {
	case v.typ.form == intOrStringForm:
		return int64(of[intstr.IntOrString](v.rv).IntVal), 0, true
	case v.rv.CanInt():
		return v.rv.Int(), 0, true
	case v.rv.CanUint():
		return int64(v.rv.Uint()), 0, true
	}
	return 0, v.rv.Float(), false
}

func (v *val) bool() bool {
	if v.untyped() {
		return v.any.(bool)
	}
	return v.rv.Bool()
}

// len is how many items a list has.
func (v *val) len() int {
	switch {
	case v.kind != list:
		return 0
	case v.untyped():
		return len(v.any.([]any))
	}
	return v.rv.Len()
}

// at returns an item of a list.
func (w *walker) at(v *val, i int) val {
	if v.untyped() {
		return w.read(v.typ, v.any.([]any)[i])
	}
	return w.load(v.typ.elem, v.rv.Index(i))
}

// equal compares as the library does: by what values are in JSON, and lists of Go objects by what they are in Go.
func (w *walker) equal(a, b *val) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case boolean:
		return a.bool() == b.bool()
	case number:
		return equalNumbers(a, b)
	case text:
		return equalTexts(a, b)
	case list:
		return w.equalLists(a, b)
	case object:
		return w.equalObjects(a, b)
	}
	return true
}

func equalNumbers(a, b *val) bool {
	n, f, isInt := a.number()
	m, g, isInt2 := b.number()
	switch {
	case isInt && isInt2:
		return n == m
	case isInt:
		f = float64(n)
	case isInt2:
		g = float64(m)
	}
	return f == g
}

func equalTexts(a, b *val) bool {
	if a.untyped() || b.untyped() || a.typ != b.typ {
		return a.text() == b.text()
	}
	switch a.typ.form {
	case bytesForm:
		return bytes.Equal(a.rv.Bytes(), b.rv.Bytes())
	case timeForm:
		return timeOf(a.rv).Unix() == timeOf(b.rv).Unix()
	case microTimeForm:
		return microTimeOf(a.rv).UnixMicro() == microTimeOf(b.rv).UnixMicro()
	case durationForm:
		return *of[metav1.Duration](a.rv) == *of[metav1.Duration](b.rv)
	case quantityForm:
		x, y := of[resource.Quantity](a.rv), of[resource.Quantity](b.rv)
		return *x == *y || x.String() == y.String()
	}
	return a.text() == b.text()
}

func (w *walker) equalLists(a, b *val) bool {
	if a.typ != b.typ {
		w.odd = true
		return false
	}
	if a.typ != nil {
		return equalInGo(a, b)
	}
	if a.len() != b.len() {
		return false
	}
	var x, y val
	for i := range a.len() {
		x, y = w.at(a, i), w.at(b, i)
		if !w.equal(&x, &y) {
			return false
		}
	}
	return true
}

func equalInGo(a, b *val) bool {
	if a.typ.form == madeForm {
		return reflect.DeepEqual(a.any, b.any)
	}
	if a.rv.Len() != b.rv.Len() {
		return false
	}
	if a.rv.UnsafePointer() == b.rv.UnsafePointer() || a.rv.Len() == 0 {
		return true
	}
	if a.typ.elem.form == plainForm && a.typ.elem.kind == text {
		for i := range a.rv.Len() {
			if a.rv.Index(i).String() != b.rv.Index(i).String() {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a.rv.Interface(), b.rv.Interface())
}

func (w *walker) equalObjects(a, b *val) bool {
	if a.untyped() != b.untyped() {
		w.odd = true
		return false
	}
	p := w.pairs(a, b, nil)
	equal := true
	for equal && p.next(w) {
		equal = p.l.kind != absent && p.r.kind != absent && w.equal(&p.l, &p.r)
	}
	p.end(w)
	return equal
}
