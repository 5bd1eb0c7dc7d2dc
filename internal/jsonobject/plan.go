package jsonobject

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plan decodes the values of a type: into a zero value that can be set or, if a patch is read, into one that it changes.
type plan struct {
	decode func(r *typedReader, v reflect.Value) bool
	merges bool // a patch is merged into the value
}

// compiler makes plans. Those that are being made are in made already, because types may contain themselves.
type compiler struct {
	made map[reflect.Type]*plan
	// foreign says that a type has something that API types do not have; the library decodes it.
	foreign bool
}

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (c *compiler) compile(t reflect.Type) *plan {
	if p := c.made[t]; p != nil {
		return p
	}
	p := &plan{merges: mergesInto(t)}
	c.made[t] = p
	p.decode = c.decoder(t)
	c.foreign = c.foreign || p.decode == nil
	return p
}

// decoder returns nil for types that the library has to decode.
func (c *compiler) decoder(t reflect.Type) func(r *typedReader, v reflect.Value) bool {
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		return readTime
	case t == reflect.TypeFor[map[string]string]():
		return c.texts(t)
	case reflect.PointerTo(t).Implements(unmarshaler):
		return readByMethod
	case reflect.PointerTo(t).Implements(textUnmarshaler):
		return nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return readBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return readInt
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return readUint
	case reflect.Float32, reflect.Float64:
		return readFloat
	case reflect.String:
		return readString
	case reflect.Pointer:
		return c.pointers(t)
	case reflect.Struct:
		return c.structs(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return readBytes
		}
		return c.slices(t)
	case reflect.Map:
		if t.Key().Kind() == reflect.String && !reflect.PointerTo(t.Key()).Implements(textUnmarshaler) {
			return c.maps(t)
		}
	}
	return nil
}

func readTime(r *typedReader, v reflect.Value) bool {
	if r.null() {
		return true
	}
	if r.next() != '"' {
		return false
	}
	s, ok := r.string()
	if !ok {
		return false
	}
	parsed, err := time.Parse(time.RFC3339, s)
	v.Addr().Interface().(*metav1.Time).Time = parsed.Local()
	return err == nil
}

func (c *compiler) texts(t reflect.Type) func(r *typedReader, v reflect.Value) bool {
	elem := c.compile(t.Elem())
	return func(r *typedReader, v reflect.Value) bool {
		if r.patch != noPatch {
			return r.mergeMap(elem, v)
		}
		return readTexts(r, v)
	}
}

func readTexts(r *typedReader, v reflect.Value) bool {
	if r.null() {
		return true
	}
	if r.next() != '{' {
		return false
	}
	texts := map[string]string{}
	ok := r.members(func(name string) bool {
		if _, twice := texts[name]; twice || r.next() != '"' {
			return false
		}
		text, ok := r.text()
		if r.apart {
			name = strings.Clone(name)
		}
		texts[name] = text
		return ok
	})
	*v.Addr().Interface().(*map[string]string) = texts
	return ok
}

func readByMethod(r *typedReader, v reflect.Value) bool {
	text, ok := r.skip()
	if r.patch != noPatch && !simple(text) {
		return false
	}
	return ok && v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(text) == nil
}

func readBool(r *typedReader, v reflect.Value) bool {
	switch r.next() {
	case 't':
		v.SetBool(true)
		return r.word("true")
	case 'f':
		return r.word("false")
	}
	return r.null()
}

func readInt(r *typedReader, v reflect.Value) bool {
	if r.null() {
		return true
	}
	text, float, ok := r.numeral()
	if !ok || float {
		return false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	v.SetInt(n)
	return err == nil && !v.OverflowInt(n)
}

func readUint(r *typedReader, v reflect.Value) bool {
	if r.null() {
		return true
	}
	text, float, ok := r.numeral()
	if !ok || float {
		return false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	v.SetUint(n)
	return err == nil && !v.OverflowUint(n)
}

func readFloat(r *typedReader, v reflect.Value) bool {
	if r.null() {
		return true
	}
	text, _, ok := r.numeral()
	if !ok {
		return false
	}
	n, err := strconv.ParseFloat(text, v.Type().Bits())
	v.SetFloat(n)
	return err == nil
}

func readString(r *typedReader, v reflect.Value) bool {
	if r.next() != '"' {
		return r.null()
	}
	s, ok := r.text()
	v.SetString(s)
	return ok
}

func readBytes(r *typedReader, v reflect.Value) bool {
	if r.next() != '"' {
		return r.null()
	}
	s, ok := r.string()
	if !ok {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(s)
	v.SetBytes(b)
	return err == nil
}

func (c *compiler) pointers(t reflect.Type) func(r *typedReader, v reflect.Value) bool {
	elem := c.compile(t.Elem())
	return func(r *typedReader, v reflect.Value) bool {
		if r.null() {
			return true
		}
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		return elem.decode(r, v.Elem())
	}
}

func (c *compiler) slices(t reflect.Type) func(r *typedReader, v reflect.Value) bool {
	elem := c.compile(t.Elem())
	return func(r *typedReader, v reflect.Value) bool {
		if r.next() != '[' {
			return r.null()
		}
		n := 0
		ok := r.items(func() bool {
			v.Grow(1)
			v.SetLen(n + 1)
			n++
			return elem.decode(r, v.Index(n-1))
		})
		if n == 0 {
			v.Set(reflect.MakeSlice(t, 0, 0))
		}
		return ok
	}
}

func (c *compiler) maps(t reflect.Type) func(r *typedReader, v reflect.Value) bool {
	elem := c.compile(t.Elem())
	return func(r *typedReader, v reflect.Value) bool {
		if r.patch != noPatch {
			return r.mergeMap(elem, v)
		}
		if r.next() != '{' {
			return r.null()
		}
		m, key, val := reflect.MakeMap(t), reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		v.Set(m)
		return r.members(func(name string) bool {
			if r.apart {
				name = strings.Clone(name)
			}
			key.SetString(name)
			if m.MapIndex(key).IsValid() {
				return false
			}
			val.SetZero()
			ok := elem.decode(r, val)
			m.SetMapIndex(key, val)
			return ok
		})
	}
}

// member is a field of a struct, or of one that is embedded in it.
type member struct {
	name string
	path []int
	plan *plan
	// list says how a strategic merge patch merges the list; nil: it is replaced.
	list *list
	// opaque says that a patch of the field is left to the library.
	opaque bool
}

// maxMembers is how many fields a struct may have: which were read is kept in bits.
const maxMembers = 64

func (c *compiler) structs(t reflect.Type) func(r *typedReader, v reflect.Value) bool {
	var members []member
	if !c.members(t, nil, &members) || len(members) > maxMembers {
		return nil
	}
	byName := map[string]int{}
	for n, m := range members {
		if _, twice := byName[m.name]; twice {
			return nil
		}
		byName[m.name] = n
	}
	return func(r *typedReader, v reflect.Value) bool {
		if r.next() != '{' {
			return r.null()
		}
		var read uint64
		var orders []order
		ahead := 0 // fields mostly come in the order of the Go type
		ok := r.members(func(name string) bool {
			n, known := ahead, ahead < len(members) && members[ahead].name == name
			if !known {
				if n, known = byName[name]; !known {
					n, known = byName[strings.TrimPrefix(name, orderDirective)]
					if !known || r.patch != StrategicMergePatch || read&(1<<n) != 0 || ordered(orders, &members[n]) {
						return false
					}
					o, ok := r.order(&members[n])
					orders = append(orders, o)
					return ok
				}
			}
			ahead = n + 1
			if read&(1<<n) != 0 {
				return false
			}
			read |= 1 << n
			f := members[n].in(v)
			if r.patch != noPatch {
				return r.change(&members[n], f, orders)
			}
			return members[n].plan.decode(r, f)
		})
		return ok && (orders == nil || inOrder(orders, v))
	}
}

// in returns the field of a struct.
func (m *member) in(v reflect.Value) reflect.Value {
	for _, i := range m.path {
		v = v.Field(i)
	}
	return v
}

// members lists the fields of a struct as encoding/json names them; false: it has something that API types do not have.
func (c *compiler) members(t reflect.Type, path []int, to *[]member) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		at := append(append([]int{}, path...), i)
		switch {
		case tag == "-" || !f.IsExported() && !f.Anonymous:
		case strings.Contains(","+options+",", ",string,"):
			return false
		case f.Anonymous && name == "":
			if f.Type.Kind() != reflect.Struct || !f.IsExported() || reflect.PointerTo(f.Type).Implements(unmarshaler) || !c.members(f.Type, at, to) {
				return false
			}
		case !f.IsExported():
			return false
		default:
			if name == "" {
				name = f.Name
			}
			m := member{name: name, path: at, plan: c.compile(f.Type)}
			m.list, m.opaque = c.strategy(f)
			*to = append(*to, m)
		}
	}
	return true
}
