package fieldmanager

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
)

// assign gives a place in a Go object a value that is untyped, as a decoder would. Where a decoder refuses the value the
// library is to be asked, which says why.
func (w *walker) assign(t *goType, dst reflect.Value, v any) {
	if v == nil {
		dst.SetZero()
		return
	}
	if t.form == pointerForm {
		p := reflect.New(t.elem.typ)
		w.assign(t.elem, p.Elem(), v)
		dst.Set(p)
		return
	}
	switch dst.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64:
		w.assignScalar(dst, v)
		return
	}
	if dst.CanInt() || dst.CanUint() {
		w.assignScalar(dst, v)
		return
	}
	if t.from != nil {
		w.odd = w.odd || t.from.FromUnstructured(reflect.ValueOf(v), dst) != nil
		return
	}
	switch v := v.(type) {
	case string:
		w.assignBytes(t, dst, v)
	case []any:
		w.assignItems(t, dst, v)
	case map[string]any:
		w.assignFields(t, dst, v)
	default:
		w.odd = true
	}
}

// assignScalar assigns numbers as a decoder does, which cuts off what does not fit.
func (w *walker) assignScalar(dst reflect.Value, v any) {
	switch v := v.(type) {
	case string:
		if dst.Kind() == reflect.String {
			dst.SetString(v)
			return
		}
	case bool:
		if dst.Kind() == reflect.Bool {
			dst.SetBool(v)
			return
		}
	case int64:
		switch {
		case dst.CanInt():
			dst.SetInt(v)
			return
		case dst.CanUint():
			dst.SetUint(uint64(v))
			return
		case dst.CanFloat():
			dst.SetFloat(float64(v))
			return
		}
	case float64:
		if dst.CanFloat() {
			dst.SetFloat(v)
			return
		}
	}
	w.odd = true
}

func (w *walker) assignBytes(t *goType, dst reflect.Value, v string) {
	if t.form != bytesForm {
		w.odd = true
		return
	}
	b, err := base64.StdEncoding.DecodeString(v)
	w.odd = w.odd || err != nil
	dst.SetBytes(b)
}

func (w *walker) assignItems(t *goType, dst reflect.Value, v []any) {
	if t.form != plainForm || t.kind != list {
		w.odd = true
		return
	}
	items := reflect.MakeSlice(t.typ, len(v), len(v))
	for i := range v {
		w.assign(t.elem, items.Index(i), v[i])
	}
	dst.Set(items)
}

func (w *walker) assignFields(t *goType, dst reflect.Value, v map[string]any) {
	switch t.form {
	case structForm:
		dst.SetZero()
		w.filled = w.filled || slices.ContainsFunc(t.always, func(name string) bool { _, ok := v[name]; return !ok })
		for name, e := range v {
			f := t.field(name)
			if f == nil {
				w.odd = true
				return
			}
			rv, _ := f.of(dst)
			if !rv.CanSet() {
				w.odd = true
				return
			}
			w.assign(f.typ, rv, e)
		}
	case textsForm:
		texts := make(map[string]string, len(v))
		for name, e := range v {
			text, ok := e.(string)
			w.odd = w.odd || !ok && e != nil
			texts[name] = text
		}
		dst.Set(reflect.ValueOf(texts))
	case mapForm, quantitiesForm:
		entries := reflect.MakeMapWithSize(t.typ, len(v))
		for name, e := range v {
			rv := reflect.New(t.elem.typ).Elem()
			w.assign(t.elem, rv, e)
			entries.SetMapIndex(t.keyOf(name), rv)
		}
		dst.Set(entries)
	default:
		w.odd = true
	}
}

// keyOf returns a key of a map.
func (t *goType) keyOf(name string) reflect.Value {
	return reflect.ValueOf(name).Convert(t.typ.Key())
}

// DropNulls sets pointers to what is null in JSON to nil, which they are once an object was decoded.
func (g *GoTypes) DropNulls(obj any) {
	v := reflect.ValueOf(obj)
	if t, err := g.of(v.Type()); err == nil {
		new(walker).dropNulls(t, v)
	}
}

// dropNulls sets pointers to what is null in JSON to nil, which they are once an object was decoded.
func (w *walker) dropNulls(t *goType, rv reflect.Value) {
	if !t.nulls {
		return
	}
	switch t.form {
	case pointerForm:
		if rv.IsNil() {
			return
		}
		if w.isNull(t.elem, rv.Elem()) {
			rv.SetZero()
			return
		}
		w.dropNulls(t.elem, rv.Elem())
	case structForm:
		for i := range t.fields {
			if f := &t.fields[i]; f.typ.nulls {
				if rv, _ := f.of(rv); rv.CanSet() {
					w.dropNulls(f.typ, rv)
				}
			}
		}
	case plainForm:
		for i := range rv.Len() { // a list
			w.dropNulls(t.elem, rv.Index(i))
		}
	case mapForm:
		for _, key := range rv.MapKeys() {
			e := reflect.New(t.elem.typ).Elem()
			e.Set(rv.MapIndex(key))
			w.dropNulls(t.elem, e)
			rv.SetMapIndex(key, e)
		}
	}
}

// isNull reports whether a value is null in JSON. An object that has an encoding of its own, as the fields of a manager have, is
// not read for that.
func (w *walker) isNull(t *goType, rv reflect.Value) bool {
	if t.form == jsonForm && rv.CanAddr() {
		if m, ok := rv.Addr().Interface().(json.Marshaler); ok {
			if b, err := m.MarshalJSON(); err == nil && len(b) > 0 && b[0] == '{' {
				return false
			}
		}
	}
	v := w.load(t, rv)
	return v.kind == null
}
