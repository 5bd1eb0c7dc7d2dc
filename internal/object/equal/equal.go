// Package equal compares Go API objects as apiequality.Semantic does: nil and empty lists and maps are equal, and so are times
// of one moment and quantities of one number. It walks the tree of their type, and memory by it: reflection, which the library
// asks about every value, costs twenty times as much. The library remains the judge in tests, and compares what API objects do
// not have.
package equal

import (
	"bytes"
	"maps"
	"reflect"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// Objects compares what two pointers point to.
func Objects(a, b any) bool {
	left, right := reflect.ValueOf(a), reflect.ValueOf(b)
	return left.Type() == right.Type() && semantic.same(apitype.Of(left.Type()).Elem, left.UnsafePointer(), right.UnsafePointer())
}

// Values compares two values of a type.
func Values(t *apitype.Type, a, b reflect.Value) bool { return semantic.same(t, place(a), place(b)) }

// Same says that two values of a type are the same in all that may show in JSON: nil and empty lists are not. It may say no
// although they are.
func Same(t *apitype.Type, a, b reflect.Value) bool { return exact.same(t, place(a), place(b)) }

// place is where a value is in memory, or a copy of it.
func place(v reflect.Value) unsafe.Pointer {
	if !v.CanAddr() {
		held := reflect.New(v.Type()).Elem()
		held.Set(v)
		v = held
	}
	return v.Addr().UnsafePointer()
}

// mode is how values are compared.
type mode bool

const (
	semantic mode = false
	exact    mode = true
)

// same compares the values of a type at two places.
func (m mode) same(t *apitype.Type, a, b unsafe.Pointer) bool {
	switch t.Kind {
	case apitype.Struct:
		return m.structs(t, a, b)
	case apitype.String:
		return *(*string)(a) == *(*string)(b)
	case apitype.Pointer:
		p, q := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
		return p == q || p != nil && q != nil && m.same(t.Elem, p, q)
	case apitype.List:
		return m.lists(t.Elem, *(*[]byte)(a), *(*[]byte)(b))
	case apitype.Bool:
		return *(*bool)(a) == *(*bool)(b)
	case apitype.Int, apitype.Uint:
		return ints(t.Bits, a, b)
	case apitype.Bytes:
		left, right := *(*[]byte)(a), *(*[]byte)(b)
		return bytes.Equal(left, right) && m.both(left == nil, right == nil)
	case apitype.Strings:
		left, right := *(*map[string]string)(a), *(*map[string]string)(b)
		return m.both(left == nil, right == nil) && maps.Equal(left, right)
	case apitype.Quantities:
		left, right := *(*corev1.ResourceList)(a), *(*corev1.ResourceList)(b)
		return m.both(left == nil, right == nil) && maps.EqualFunc(left, right, m.quantities)
	case apitype.Quantity:
		return m.quantities(*(*resource.Quantity)(a), *(*resource.Quantity)(b))
	case apitype.Time:
		return m.times((*metav1.Time)(a).Time, (*metav1.Time)(b).Time)
	case apitype.MicroTime:
		return m.times((*metav1.MicroTime)(a).Time, (*metav1.MicroTime)(b).Time)
	case apitype.Duration:
		return *(*metav1.Duration)(a) == *(*metav1.Duration)(b)
	case apitype.IntOrString:
		left, right := *(*intstr.IntOrString)(a), *(*intstr.IntOrString)(b)
		return left == right && (m == semantic || left.Type == intstr.Int || left.Type == intstr.String)
	}
	return m == semantic && others(t, reflect.NewAt(t.Go, a).Elem(), reflect.NewAt(t.Go, b).Elem())
}

// both compares whether two lists or maps are nil.
func (m mode) both(a, b bool) bool { return m == semantic || a == b }

func (m mode) quantities(a, b resource.Quantity) bool {
	return a == b || m == semantic && a.Cmp(b) == 0
}

func (m mode) times(a, b time.Time) bool { return a == b || m == semantic && a.UTC() == b.UTC() }

func (m mode) structs(t *apitype.Type, a, b unsafe.Pointer) bool {
	if t.Hidden { // the library panics
		return reflect.DeepEqual(reflect.NewAt(t.Go, a).Elem().Interface(), reflect.NewAt(t.Go, b).Elem().Interface())
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if !m.same(f.Type, unsafe.Add(a, f.Offset), unsafe.Add(b, f.Offset)) {
			return false
		}
	}
	return true
}

// lists compares lists of a type, which are given as if their items were bytes.
func (m mode) lists(elem *apitype.Type, a, b []byte) bool {
	p, q := unsafe.Pointer(unsafe.SliceData(a)), unsafe.Pointer(unsafe.SliceData(b))
	if len(a) != len(b) || !m.both(p == nil, q == nil) {
		return false
	}
	if p == q {
		return true
	}
	for i := range len(a) {
		if at := uintptr(i) * elem.Size; !m.same(elem, unsafe.Add(p, at), unsafe.Add(q, at)) {
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

// others compares what is rare.
func others(t *apitype.Type, a, b reflect.Value) bool {
	switch {
	case t.Kind == apitype.FieldsV1:
		return apitype.As[metav1.FieldsV1](a).Equal(*apitype.As[metav1.FieldsV1](b))
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
		return semantic.structs(t, a.Addr().UnsafePointer(), b.Addr().UnsafePointer())
	}
	return apiequality.Semantic.DeepEqual(a.Interface(), b.Interface())
}
