package cel

import (
	"encoding/base64"
	"encoding/json"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// Typed returns an object of a Go type as expressions see it: the map that its JSON is. Expressions look at few fields of an object, so fields are read
// from the Go value when they are asked for. Whoever asks for more than fields, as for a size or for equality, gets the whole map made.
// The object must not change while expressions use it, and they must use it one after the other.
func Typed(obj runtime.Object) ref.Val {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return types.NewErr("%T is no object of a Go type", obj)
	}
	return structure(apitype.Of(v.Type().Elem()), v.Elem())
}

// structure returns a struct as a map.
func structure(t *apitype.Type, v reflect.Value) ref.Val {
	if t.Kind != apitype.Struct || t.Holds&apitype.HoldsForeign != 0 {
		return whole(v)
	}
	return &fields{t: t, v: v}
}

// whole makes the map of a struct at once.
func whole(v reflect.Value) ref.Val {
	if !v.CanAddr() {
		place := reflect.New(v.Type()).Elem()
		place.Set(v)
		v = place
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v.Addr().Interface())
	if err != nil {
		return types.WrapErr(err)
	}
	return types.NewStringInterfaceMap(types.DefaultTypeAdapter, m)
}

// fields is a struct as a map: Find, Get and Contains read the struct, and all else asks the whole map.
type fields struct {
	t     *apitype.Type
	v     reflect.Value
	found []found // so far
	made  ref.Val // the whole map, once somebody has needed it
}

type found struct {
	place int // of a member
	ref.Val
}

var _ traits.Mapper = (*fields)(nil)

func (f *fields) all() ref.Val {
	if f.made == nil {
		f.made = whole(f.v)
	}
	return f.made
}

// mapper returns the whole map, or its error.
func (f *fields) mapper() (traits.Mapper, ref.Val) {
	all := f.all()
	m, ok := all.(traits.Mapper)
	if !ok {
		return nil, all
	}
	return m, nil
}

// Find is part of traits.Mapper.
func (f *fields) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	place := f.t.Place(string(name))
	if place < 0 {
		return nil, false
	}
	for i := range f.found {
		if f.found[i].place == place {
			return f.found[i].Val, true
		}
	}
	field := &f.t.Members[place]
	v := field.In(f.v)
	if field.Omits(v) {
		return nil, false
	}
	is := valueOf(field.Type, v)
	f.found = append(f.found, found{place, is})
	return is, true
}

// Get is part of traits.Mapper.
func (f *fields) Get(key ref.Val) ref.Val {
	v, ok := f.Find(key)
	if !ok {
		return types.NewErr("no such key: %v", key)
	}
	return v
}

// Contains is part of traits.Mapper.
func (f *fields) Contains(key ref.Val) ref.Val {
	v, ok := f.Find(key)
	if ok && types.IsUnknownOrError(v) {
		return v
	}
	return types.Bool(ok)
}

// Iterator is part of traits.Mapper. A struct that cannot be expressed has no keys: whoever uses it has had the error before.
func (f *fields) Iterator() traits.Iterator {
	m, wrong := f.mapper()
	if wrong != nil {
		return types.NewRefValList(types.DefaultTypeAdapter, nil).Iterator()
	}
	return m.Iterator()
}

// Size is part of traits.Mapper.
func (f *fields) Size() ref.Val {
	m, wrong := f.mapper()
	if wrong != nil {
		return wrong
	}
	return m.Size()
}

// ConvertToNative is part of ref.Val.
func (f *fields) ConvertToNative(t reflect.Type) (any, error) { return f.all().ConvertToNative(t) }

// ConvertToType is part of ref.Val.
func (f *fields) ConvertToType(t ref.Type) ref.Val { return f.all().ConvertToType(t) }

// Equal is part of ref.Val.
func (f *fields) Equal(other ref.Val) ref.Val { return f.all().Equal(other) }

// Type is part of ref.Val.
func (f *fields) Type() ref.Type { return types.MapType }

// Value is part of ref.Val.
func (f *fields) Value() any { return f.all().Value() }

// valueOf returns a value of a field or in one.
func valueOf(t *apitype.Type, v reflect.Value) ref.Val {
	switch t.Kind {
	case apitype.Bool:
		return types.Bool(v.Bool())
	case apitype.Int:
		return types.Int(v.Int())
	case apitype.Float:
		return types.Double(v.Float())
	case apitype.String:
		return types.String(v.String())
	case apitype.Struct:
		return structure(t, v)
	case apitype.Quantity:
		return types.String(apitype.As[resource.Quantity](v).String())
	case apitype.IntOrString:
		if n := apitype.As[intstr.IntOrString](v); n.Type == intstr.Int {
			return types.Int(n.IntVal)
		} else {
			return types.String(n.StrVal)
		}
	case apitype.Time:
		if apitype.As[metav1.Time](v).IsZero() {
			return types.NullValue
		}
	case apitype.Pointer, apitype.Bytes, apitype.List, apitype.Map, apitype.Strings, apitype.Quantities:
		if v.IsNil() {
			return types.NullValue
		}
		return inside(t, v)
	}
	return fromJSON(v)
}

// inside returns a pointer, list or map that is not nil.
func inside(t *apitype.Type, v reflect.Value) ref.Val {
	switch t.Kind {
	case apitype.Pointer:
		return valueOf(t.Elem, v.Elem())
	case apitype.Bytes:
		return types.String(base64.StdEncoding.EncodeToString(v.Bytes()))
	case apitype.List:
		items := make([]ref.Val, v.Len())
		for i := range items {
			items[i] = valueOf(t.Elem, v.Index(i))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, items)
	case apitype.Strings:
		return types.NewStringStringMap(types.DefaultTypeAdapter, *apitype.As[map[string]string](v))
	}
	m := make(map[string]any, v.Len())
	for at := v.MapRange(); at.Next(); {
		m[at.Key().String()] = valueOf(t.Elem, at.Value())
	}
	return types.NewStringInterfaceMap(types.DefaultTypeAdapter, m)
}

// fromJSON returns a value that only its own methods can write.
func fromJSON(v reflect.Value) ref.Val {
	if v.CanAddr() {
		v = v.Addr()
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return types.WrapErr(err)
	}
	var out any
	if err := utiljson.Unmarshal(text, &out); err != nil {
		return types.WrapErr(err)
	}
	return types.DefaultTypeAdapter.NativeToValue(out)
}
