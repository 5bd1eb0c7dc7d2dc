// Package equal compares Go API objects as apiequality.Semantic does: nil and empty lists and maps are equal, and so are times
// of one moment and quantities of one number. It walks the tree of their type, and memory by it: reflection, which the library
// asks about every value, costs twenty times as much. The library remains the judge in tests, and compares what API objects do
// not have.
package equal

import (
	"bytes"
	"reflect"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/apitype"
)

// Types is for who asks a value.
type Types struct{}

func (Types) Objects(a, b any) bool { return Objects(a, b) }

// Objects compares what two pointers point to.
func Objects(a, b any) bool {
	left, right := reflect.ValueOf(a), reflect.ValueOf(b)
	return left.Type() == right.Type() && same(apitype.Of(left.Type()).Elem, left.UnsafePointer(), right.UnsafePointer())
}

// Values compares two values of a type.
func Values(t *apitype.Type, a, b reflect.Value) bool { return same(t, place(a), place(b)) }

// place is where a value is in memory, or a copy of it.
func place(v reflect.Value) unsafe.Pointer {
	if !v.CanAddr() {
		held := reflect.New(v.Type()).Elem()
		held.Set(v)
		v = held
	}
	return v.Addr().UnsafePointer()
}

// same compares the values of a type at two places.
func same(t *apitype.Type, a, b unsafe.Pointer) bool {
	switch t.Kind {
	case apitype.Struct:
		return structs(t, a, b)
	case apitype.String:
		return *(*string)(a) == *(*string)(b)
	case apitype.Pointer:
		p, q := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
		return p == q || p != nil && q != nil && same(t.Elem, p, q)
	case apitype.List:
		return lists(t.Elem, a, b)
	case apitype.Bool:
		return *(*bool)(a) == *(*bool)(b)
	case apitype.Int, apitype.Uint:
		return ints(t.Bits, a, b)
	case apitype.Bytes:
		return bytes.Equal(*(*[]byte)(a), *(*[]byte)(b))
	case apitype.Strings:
		return entries(*(*map[string]string)(a), *(*map[string]string)(b), func(a, b string) bool { return a == b })
	case apitype.Quantities:
		return entries(*(*corev1.ResourceList)(a), *(*corev1.ResourceList)(b), quantities)
	case apitype.Quantity:
		return quantities(*(*resource.Quantity)(a), *(*resource.Quantity)(b))
	case apitype.Time:
		return (*metav1.Time)(a).UTC() == (*metav1.Time)(b).UTC()
	case apitype.MicroTime:
		return (*metav1.MicroTime)(a).UTC() == (*metav1.MicroTime)(b).UTC()
	case apitype.FieldsV1:
		return (*metav1.FieldsV1)(a).Equal(*(*metav1.FieldsV1)(b))
	}
	return values(t, reflect.NewAt(t.Go, a).Elem(), reflect.NewAt(t.Go, b).Elem())
}

func structs(t *apitype.Type, a, b unsafe.Pointer) bool {
	if t.Hidden { // the library panics
		return reflect.DeepEqual(reflect.NewAt(t.Go, a).Elem().Interface(), reflect.NewAt(t.Go, b).Elem().Interface())
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if !same(f.Type, unsafe.Add(a, f.Offset), unsafe.Add(b, f.Offset)) {
			return false
		}
	}
	return true
}

func lists(elem *apitype.Type, a, b unsafe.Pointer) bool {
	left, right := *(*[]byte)(a), *(*[]byte)(b) // for their lengths and places
	p, q := unsafe.Pointer(unsafe.SliceData(left)), unsafe.Pointer(unsafe.SliceData(right))
	if len(left) != len(right) {
		return false
	}
	if p == q {
		return true
	}
	for i := range len(left) {
		if at := uintptr(i) * elem.Size; !same(elem, unsafe.Add(p, at), unsafe.Add(q, at)) {
			return false
		}
	}
	return true
}

func ints(bits int, a, b unsafe.Pointer) bool {
	switch bits {
	case 8:
		return *(*int8)(a) == *(*int8)(b)
	case 16:
		return *(*int16)(a) == *(*int16)(b)
	case 32:
		return *(*int32)(a) == *(*int32)(b)
	}
	return *(*int64)(a) == *(*int64)(b)
}

func entries[K comparable, V any](a, b map[K]V, same func(a, b V) bool) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		if other, ok := b[name]; !ok || !same(v, other) {
			return false
		}
	}
	return true
}

func quantities(a, b resource.Quantity) bool { return a == b || a.Cmp(b) == 0 }

// values compares what is rare.
func values(t *apitype.Type, a, b reflect.Value) bool {
	switch {
	case t.Kind == apitype.Map:
		if a.Len() != b.Len() {
			return false
		}
		for it := a.MapRange(); it.Next(); {
			if other := b.MapIndex(it.Key()); !other.IsValid() || !Values(t.Elem, it.Value(), other) {
				return false
			}
		}
		return true
	case a.Kind() == reflect.Struct:
		return structs(t, a.Addr().UnsafePointer(), b.Addr().UnsafePointer())
	}
	return apiequality.Semantic.DeepEqual(a.Interface(), b.Interface())
}
