package jsonobject

import (
	"encoding/json"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// Decode decodes a document into what the pointer into points to, which must be zero, as UnmarshalStrict of sigs.k8s.io/json
// does where it finds nothing to object to. False: the document has an error, an unknown or a duplicate field, or something
// that is rare; into is zero then, and the library shall decode. The strings share one copy of data, unless the value is to be kept:
// who keeps one string for long would keep all of it.
func Decode(data []byte, into any, kept bool) bool {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || !v.Elem().IsZero() {
		return false
	}
	d := decoder{lexer: lexer{data: string(data)}, raw: data, apart: kept}
	if d.document(v) {
		return true
	}
	v.Elem().SetZero()
	return false
}

// Valid says that data is one JSON value. It may say no of a value that is nested deeply.
func Valid(data []byte) bool {
	l := lexer{data: over(data)}
	return l.skip() && l.ended()
}

// decoder reads a document into a Go value, by the tree of its type: into one that is zero or, if a patch is read, into one that
// it changes.
type decoder struct {
	lexer
	raw   []byte // the document again, for UnmarshalJSON
	apart bool   // each string has bytes of its own
	patch Patch
}

func (d *decoder) document(into reflect.Value) bool {
	t := apitype.Of(into.Type()).Elem
	return t.Holds&apitype.HoldsForeign == 0 && d.next() == '{' && d.value(t, into.Elem()) && d.ended()
}

// value decodes a value of a type.
func (d *decoder) value(t *apitype.Type, v reflect.Value) bool {
	switch t.Kind {
	case apitype.String:
		if d.next() != '"' {
			return d.null()
		}
		s, ok := d.text()
		v.SetString(s)
		return ok
	case apitype.Struct:
		return d.object(t, v)
	case apitype.Pointer:
		if d.null() {
			return true
		}
		if v.IsNil() {
			v.Set(reflect.New(t.Elem.Go))
		}
		return d.value(t.Elem, v.Elem())
	case apitype.List:
		return d.list(t, v)
	case apitype.Map, apitype.Quantities, apitype.Strings:
		switch {
		case d.patch != noPatch:
			return d.mergeMap(t, v)
		case d.next() != '{':
			return d.null()
		case t.Kind == apitype.Strings:
			return d.texts(v.Addr().Interface().(*map[string]string))
		case t.Kind == apitype.Quantities:
			return d.quantities(t, v.Addr().Interface().(*corev1.ResourceList))
		}
		return d.entries(t, v)
	case apitype.Bool, apitype.Int, apitype.Uint, apitype.Float, apitype.Bytes, apitype.Time:
		return d.null() || d.scalar(t, v)
	}
	return t.Unmarshals && d.own(t, v)
}

// text reads a string that becomes part of the value.
func (d *decoder) text() (string, bool) {
	s, ok := d.string()
	if d.apart {
		s = strings.Clone(s)
	}
	return s, ok
}

// null skips a null. One in a patch is left to who merges.
func (d *decoder) null() bool { return d.patch == noPatch && d.next() == 'n' && d.word("null") }

// own lets a value read what comes next.
func (d *decoder) own(t *apitype.Type, v reflect.Value) bool {
	d.next()
	begin := d.at
	if !d.skip() {
		return false
	}
	text := d.raw[begin:d.at]
	if d.patch != noPatch && !simple(text) || t.Kind == apitype.Quantity && !cheap(text) {
		return false
	}
	return v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(text) == nil
}

// cheap says that a quantity is read quickly. What is wrong with another is left to others to tell.
func cheap(text []byte) bool {
	s := strings.Trim(over(text), `"`)
	return !strings.Contains(s, `\`) && apitype.BoundQuantity(s) == nil
}

// fewBytes is room for the first items of a list, so that a list of small ones does not grow with each of them.
const fewBytes = 128

func (d *decoder) list(t *apitype.Type, v reflect.Value) bool {
	if d.next() != '[' {
		return d.null()
	}
	n := 0
	ok := d.items(func() bool {
		if room := 1; n == v.Cap() {
			if n == 0 {
				room = max(1, fewBytes/int(max(1, t.Elem.Size)))
			}
			v.Grow(room)
		}
		v.SetLen(n + 1)
		n++
		return d.value(t.Elem, v.Index(n-1))
	})
	if n == 0 {
		v.Set(reflect.MakeSlice(t.Go, 0, 0))
	}
	return ok
}

func (d *decoder) texts(to *map[string]string) bool {
	texts := map[string]string{}
	*to = texts
	return d.members(func(name string) bool {
		if _, twice := texts[name]; twice || d.next() != '"' {
			return false
		}
		text, ok := d.text()
		texts[d.kept(name)] = text
		return ok
	})
}

func (d *decoder) quantities(t *apitype.Type, to *corev1.ResourceList) bool {
	list := corev1.ResourceList{}
	*to = list
	var q resource.Quantity
	return d.members(func(name string) bool {
		if _, twice := list[corev1.ResourceName(name)]; twice {
			return false
		}
		q = resource.Quantity{}
		ok := d.value(t.Elem, reflect.ValueOf(&q).Elem())
		list[corev1.ResourceName(d.kept(name))] = q
		return ok
	})
}

// kept returns a name that becomes part of the value.
func (d *decoder) kept(name string) string {
	if d.apart {
		return strings.Clone(name)
	}
	return name
}

func (d *decoder) entries(t *apitype.Type, v reflect.Value) bool {
	m, key, val := reflect.MakeMap(t.Go), reflect.New(t.Go.Key()).Elem(), reflect.New(t.Elem.Go).Elem()
	v.Set(m)
	return d.members(func(name string) bool {
		key.SetString(d.kept(name))
		if m.MapIndex(key).IsValid() {
			return false
		}
		val.SetZero()
		ok := d.value(t.Elem, val)
		m.SetMapIndex(key, val)
		return ok
	})
}

func (d *decoder) object(t *apitype.Type, v reflect.Value) bool {
	if d.next() != '{' {
		return d.null()
	}
	var read uint64 // the members that were read; apitype has no struct with more than 64
	var orders []order
	ahead := 0 // fields mostly come in the order of the Go type
	ok := d.members(func(name string) bool {
		n := ahead
		if n >= len(t.Members) || t.Members[n].Name != name {
			n = t.Place(name)
		}
		if n < 0 {
			n = t.Place(strings.TrimPrefix(name, orderDirective))
			if n < 0 || d.patch != StrategicMergePatch || read&(1<<n) != 0 || ordered(orders, &t.Members[n]) {
				return false
			}
			o, ok := d.order(&t.Members[n])
			orders = append(orders, o)
			return ok
		}
		ahead = n + 1
		if read&(1<<n) != 0 {
			return false
		}
		read |= 1 << n
		f := &t.Members[n]
		if d.patch != noPatch {
			return d.change(f, f.In(v), orders)
		}
		return d.value(f.Type, f.In(v))
	})
	return ok && (orders == nil || inOrder(orders, v))
}
