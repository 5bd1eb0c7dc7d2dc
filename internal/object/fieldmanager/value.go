package fieldmanager

import (
	"bytes"
	"encoding/base64"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// val is a value in a Go object or in an untyped one.
type val struct {
	kind kind
	typ  *apitype.Type // nil: of an untyped object
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
func (w *walker) load(t *apitype.Type, rv reflect.Value) val {
	switch t.Kind {
	case apitype.Pointer:
		if rv.IsNil() {
			return val{kind: null}
		}
		return w.load(t.Elem, rv.Elem())
	case apitype.List, apitype.Map, apitype.Strings, apitype.Quantities, apitype.Bytes:
		if rv.IsNil() {
			return val{kind: null}
		}
	case apitype.Time:
		if timeOf(rv).IsZero() {
			return val{kind: null}
		}
	case apitype.MicroTime:
		if microTimeOf(rv).IsZero() {
			return val{kind: null}
		}
	case apitype.IntOrString:
		return w.loadIntOrString(t, rv)
	case apitype.Own, apitype.RawExtension, apitype.FieldsV1:
		v, err := value.TypeReflectEntryOf(t.Go).ToUnstructured(rv)
		w.odd = w.odd || err != nil
		return w.read(made, v)
	}
	return val{kind: kinds[t.Kind], typ: t, rv: rv}
}

func (w *walker) loadIntOrString(t *apitype.Type, rv reflect.Value) val {
	switch apitype.As[intstr.IntOrString](rv).Type {
	case intstr.Int:
		return val{kind: number, typ: t, rv: rv}
	case intstr.String:
		return val{kind: text, typ: t, rv: rv}
	}
	w.odd = true
	return val{kind: null}
}

// read returns a value of an untyped object.
func (w *walker) read(t *apitype.Type, v any) val {
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

func timeOf(rv reflect.Value) *metav1.Time           { return apitype.As[metav1.Time](rv) }
func microTimeOf(rv reflect.Value) *metav1.MicroTime { return apitype.As[metav1.MicroTime](rv) }

// untyped reports whether the content of v is in v.any.
func (v *val) untyped() bool { return v.typ == nil || v.typ == made }

// text returns a text.
func (v *val) text() string {
	if v.untyped() {
		return v.any.(string)
	}
	if v.typ == heldText {
		return v.held
	}
	switch v.typ.Kind {
	case apitype.Bytes:
		return base64.StdEncoding.EncodeToString(v.rv.Bytes())
	case apitype.Time:
		return timeOf(v.rv).UTC().Format(time.RFC3339)
	case apitype.MicroTime:
		return microTimeOf(v.rv).UTC().Format(metav1.RFC3339Micro)
	case apitype.Duration:
		return apitype.As[metav1.Duration](v.rv).Duration.String()
	case apitype.Quantity:
		return apitype.As[resource.Quantity](v.rv).String()
	case apitype.IntOrString:
		return apitype.As[intstr.IntOrString](v.rv).StrVal
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
	case v.typ.Kind == apitype.IntOrString:
		return int64(apitype.As[intstr.IntOrString](v.rv).IntVal), 0, true
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
	return w.load(v.typ.Elem, v.rv.Index(i))
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
	switch a.typ.Kind {
	case apitype.Bytes:
		return bytes.Equal(a.rv.Bytes(), b.rv.Bytes())
	case apitype.Time:
		return timeOf(a.rv).Unix() == timeOf(b.rv).Unix()
	case apitype.MicroTime:
		return microTimeOf(a.rv).UnixMicro() == microTimeOf(b.rv).UnixMicro()
	case apitype.Duration:
		return *apitype.As[metav1.Duration](a.rv) == *apitype.As[metav1.Duration](b.rv)
	case apitype.Quantity:
		x, y := apitype.As[resource.Quantity](a.rv), apitype.As[resource.Quantity](b.rv)
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
	if a.typ == made {
		return reflect.DeepEqual(a.any, b.any)
	}
	if a.rv.Len() != b.rv.Len() {
		return false
	}
	if a.rv.UnsafePointer() == b.rv.UnsafePointer() || a.rv.Len() == 0 {
		return true
	}
	if a.typ.Elem.Kind == apitype.String {
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
