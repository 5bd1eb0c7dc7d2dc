package fieldmanager

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// assign gives a place in a Go object a value that is untyped, as a decoder would. Where a decoder refuses the value the
// library is to be asked, which says why.
func (w *walker) assign(t *apitype.Type, dst reflect.Value, v any) {
	if v == nil {
		dst.SetZero()
		return
	}
	if t.Kind == apitype.Pointer {
		p := reflect.New(t.Elem.Go)
		w.assign(t.Elem, p.Elem(), v)
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
	if t.Unmarshals {
		b, err := json.Marshal(v)
		w.odd = w.odd || err != nil || dst.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(b) != nil
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

func (w *walker) assignBytes(t *apitype.Type, dst reflect.Value, v string) {
	if t.Kind != apitype.Bytes {
		w.odd = true
		return
	}
	b, err := base64.StdEncoding.DecodeString(v)
	w.odd = w.odd || err != nil
	dst.SetBytes(b)
}

func (w *walker) assignItems(t *apitype.Type, dst reflect.Value, v []any) {
	if t.Kind != apitype.List {
		w.odd = true
		return
	}
	items := reflect.MakeSlice(t.Go, len(v), len(v))
	for i := range v {
		w.assign(t.Elem, items.Index(i), v[i])
	}
	dst.Set(items)
}

func (w *walker) assignFields(t *apitype.Type, dst reflect.Value, v map[string]any) {
	switch t.Kind {
	case apitype.Struct:
		dst.SetZero()
		w.filled = w.filled || slices.ContainsFunc(t.Sorted, func(f *apitype.Field) bool { return isAlways(f) && !has(v, f.Name) })
		for name, e := range v {
			f := t.Member(name)
			if f == nil {
				w.odd = true
				return
			}
			rv := f.In(dst)
			if !rv.CanSet() {
				w.odd = true
				return
			}
			w.assign(f.Type, rv, e)
		}
	case apitype.Strings:
		texts := make(map[string]string, len(v))
		for name, e := range v {
			text, ok := e.(string)
			w.odd = w.odd || !ok && e != nil
			texts[name] = text
		}
		dst.Set(reflect.ValueOf(texts))
	case apitype.Map, apitype.Quantities:
		entries := reflect.MakeMapWithSize(t.Go, len(v))
		for name, e := range v {
			rv := reflect.New(t.Elem.Go).Elem()
			w.assign(t.Elem, rv, e)
			entries.SetMapIndex(keyOf(t, name), rv)
		}
		dst.Set(entries)
	default:
		w.odd = true
	}
}

func has(v map[string]any, name string) bool {
	_, ok := v[name]
	return ok
}

// DropNulls sets pointers to what is null in JSON to nil, which they are once an object was decoded.
func DropNulls(obj any) {
	v := reflect.ValueOf(obj)
	if t := apitype.Of(v.Type()); t.Holds&apitype.HoldsForeign == 0 {
		new(walker).dropNulls(t, v)
	}
}

// dropNulls sets pointers to what is null in JSON to nil, which they are once an object was decoded.
func (w *walker) dropNulls(t *apitype.Type, rv reflect.Value) {
	if t.Holds&apitype.HoldsNull == 0 {
		return
	}
	switch t.Kind {
	case apitype.Pointer:
		if rv.IsNil() {
			return
		}
		if w.isNull(t.Elem, rv.Elem()) {
			rv.SetZero()
			return
		}
		w.dropNulls(t.Elem, rv.Elem())
	case apitype.Struct:
		for i := range t.Fields {
			if f := &t.Fields[i]; f.Type.Holds&apitype.HoldsNull != 0 {
				w.dropNulls(f.Type, f.In(rv))
			}
		}
	case apitype.List:
		for i := range rv.Len() {
			w.dropNulls(t.Elem, rv.Index(i))
		}
	case apitype.Map:
		for _, key := range rv.MapKeys() {
			e := reflect.New(t.Elem.Go).Elem()
			e.Set(rv.MapIndex(key))
			w.dropNulls(t.Elem, e)
			rv.SetMapIndex(key, e)
		}
	}
}

// isNull reports whether a value is null in JSON. An object that has an encoding of its own, as the fields of a manager have, is
// not read for that.
func (w *walker) isNull(t *apitype.Type, rv reflect.Value) bool {
	if isOwn(t) && rv.CanAddr() {
		if m, ok := rv.Addr().Interface().(json.Marshaler); ok {
			if b, err := m.MarshalJSON(); err == nil && len(b) > 0 && b[0] == '{' {
				return false
			}
		}
	}
	v := w.load(t, rv)
	return v.kind == null
}
