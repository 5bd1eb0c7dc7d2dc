// Package equal compares Go API objects as apiequality.Semantic does: nil and empty lists and maps are equal, and so are times
// of one moment and quantities of one number. How values of a type are compared is found out once for each type; the library
// asks again for every value, which costs ten times as much. The library remains the judge in tests, and compares what is of a
// type that API objects do not have.
package equal

import (
	"bytes"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types knows how values are compared. The zero value is ready to use, by many goroutines.
type Types struct {
	mu    sync.RWMutex
	known map[reflect.Type]*plan // guarded by mu; a plan in it is complete
}

// plan compares two values of a type.
type plan struct {
	same func(a, b reflect.Value) bool
}

// Of returns a comparison of values of a type. What it has to find out about the type it finds out when it is first called.
func Of[T any]() func(a, b *T) bool {
	p := sync.OnceValue(func() *plan { return new(Types).of(reflect.TypeFor[*T]()) })
	return func(a, b *T) bool { return p().same(reflect.ValueOf(a), reflect.ValueOf(b)) }
}

// Objects compares what two pointers point to.
func (t *Types) Objects(a, b any) bool { return t.Values(reflect.ValueOf(a), reflect.ValueOf(b)) }

// Values compares two values.
func (t *Types) Values(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	return a.Type() == b.Type() && t.of(a.Type()).same(a, b)
}

// Comparison returns how values of a type are compared, for who compares many.
func (t *Types) Comparison(typ reflect.Type) func(a, b reflect.Value) bool { return t.of(typ).same }

func (t *Types) of(typ reflect.Type) *plan {
	t.mu.RLock()
	p := t.known[typ]
	t.mu.RUnlock()
	if p != nil {
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := compiler{known: t.known, made: map[reflect.Type]*plan{}}
	p = c.compile(typ)
	if t.known == nil {
		t.known = map[reflect.Type]*plan{}
	}
	for typ, p := range c.made {
		t.known[typ] = p
	}
	return p
}

// compiler makes plans. Those that are being made are in made already, because types may contain themselves.
type compiler struct {
	known, made map[reflect.Type]*plan
}

func (c *compiler) compile(t reflect.Type) *plan {
	if p := c.known[t]; p != nil {
		return p
	}
	if p := c.made[t]; p != nil {
		return p
	}
	p := &plan{}
	c.made[t] = p
	p.same = c.comparison(t)
	return p
}

func (c *compiler) comparison(t reflect.Type) func(a, b reflect.Value) bool {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return func(a, b reflect.Value) bool { return sameQuantity(in[resource.Quantity](a), in[resource.Quantity](b)) }
	case reflect.TypeFor[metav1.Time]():
		return func(a, b reflect.Value) bool { return in[metav1.Time](a).UTC() == in[metav1.Time](b).UTC() }
	case reflect.TypeFor[metav1.MicroTime]():
		return func(a, b reflect.Value) bool { return in[metav1.MicroTime](a).UTC() == in[metav1.MicroTime](b).UTC() }
	case reflect.TypeFor[metav1.FieldsV1]():
		return func(a, b reflect.Value) bool { return in[metav1.FieldsV1](a).Equal(*in[metav1.FieldsV1](b)) }
	case reflect.TypeFor[map[string]string]():
		return sameTexts
	case reflect.TypeFor[corev1.ResourceList]():
		return sameResources
	}
	switch t.Kind() {
	case reflect.Bool:
		return func(a, b reflect.Value) bool { return a.Bool() == b.Bool() }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(a, b reflect.Value) bool { return a.Int() == b.Int() }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(a, b reflect.Value) bool { return a.Uint() == b.Uint() }
	case reflect.Float32, reflect.Float64:
		return func(a, b reflect.Value) bool { return a.Float() == b.Float() }
	case reflect.String:
		return func(a, b reflect.Value) bool { return a.String() == b.String() }
	case reflect.Pointer:
		return c.pointers(t)
	case reflect.Struct:
		return c.structs(t)
	case reflect.Slice:
		return c.slices(t)
	case reflect.Map:
		return c.maps(t)
	}
	return asLibrary
}

// asLibrary compares what is in an interface, for example.
func asLibrary(a, b reflect.Value) bool {
	return apiequality.Semantic.DeepEqual(a.Interface(), b.Interface())
}

// asReflect compares structs with fields that are not exported, for which the library panics.
func asReflect(a, b reflect.Value) bool { return reflect.DeepEqual(a.Interface(), b.Interface()) }

func (c *compiler) pointers(t reflect.Type) func(a, b reflect.Value) bool {
	elem := c.compile(t.Elem())
	return func(a, b reflect.Value) bool {
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return a.Pointer() == b.Pointer() || elem.same(a.Elem(), b.Elem())
	}
}

func (c *compiler) structs(t reflect.Type) func(a, b reflect.Value) bool {
	fields := make([]*plan, t.NumField())
	for i := range fields {
		if !t.Field(i).IsExported() {
			return asReflect
		}
		fields[i] = c.compile(t.Field(i).Type)
	}
	return func(a, b reflect.Value) bool {
		for i, f := range fields {
			if !f.same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
}

func (c *compiler) slices(t reflect.Type) func(a, b reflect.Value) bool {
	if t.Elem().Kind() == reflect.Uint8 {
		return func(a, b reflect.Value) bool { return bytes.Equal(a.Bytes(), b.Bytes()) }
	}
	elem := c.compile(t.Elem())
	return func(a, b reflect.Value) bool {
		n := a.Len()
		if n != b.Len() {
			return false
		}
		if n == 0 || a.Pointer() == b.Pointer() {
			return true
		}
		for i := range n {
			if !elem.same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
}

func (c *compiler) maps(t reflect.Type) func(a, b reflect.Value) bool {
	elem := c.compile(t.Elem())
	return func(a, b reflect.Value) bool {
		if a.Len() != b.Len() {
			return false
		}
		for it := a.MapRange(); it.Next(); {
			if other := b.MapIndex(it.Key()); !other.IsValid() || !elem.same(it.Value(), other) {
				return false
			}
		}
		return true
	}
}

func sameTexts(a, b reflect.Value) bool {
	left, right := a.Interface().(map[string]string), b.Interface().(map[string]string)
	if len(left) != len(right) {
		return false
	}
	for name, text := range left {
		if other, ok := right[name]; !ok || other != text {
			return false
		}
	}
	return true
}

func sameResources(a, b reflect.Value) bool {
	left, right := a.Interface().(corev1.ResourceList), b.Interface().(corev1.ResourceList)
	if len(left) != len(right) {
		return false
	}
	for name, q := range left {
		if other, ok := right[name]; !ok || !sameQuantity(&q, &other) {
			return false
		}
	}
	return true
}

func sameQuantity(a, b *resource.Quantity) bool { return *a == *b || a.Cmp(*b) == 0 }

// in returns a value of type T, without copying it where it has a place in memory.
func in[T any](v reflect.Value) *T {
	if v.CanAddr() {
		return v.Addr().Interface().(*T)
	}
	t := v.Interface().(T)
	return &t
}
