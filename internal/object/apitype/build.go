package apitype

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// kinds are the types that have a kind for themselves.
var kinds = map[reflect.Type]Kind{
	reflect.TypeFor[map[string]string]():    Strings,
	reflect.TypeFor[corev1.ResourceList]():  Quantities,
	reflect.TypeFor[metav1.Time]():          Time,
	reflect.TypeFor[metav1.MicroTime]():     MicroTime,
	reflect.TypeFor[metav1.Duration]():      Duration,
	reflect.TypeFor[resource.Quantity]():    Quantity,
	reflect.TypeFor[intstr.IntOrString]():   IntOrString,
	reflect.TypeFor[runtime.RawExtension](): RawExtension,
	reflect.TypeFor[metav1.FieldsV1]():      FieldsV1,
}

const (
	maxMembers = 64   // the set of those that were read are the bits of a number
	maxNumber  = 1000 // there is a table by numbers
)

// builder builds trees. Those that it has begun are in it already, because types may contain themselves.
type builder map[reflect.Type]*Type

func (b builder) of(t reflect.Type) *Type {
	if known, ok := types.known.Load(t); ok {
		return known.(*Type)
	}
	if b[t] != nil {
		return b[t]
	}
	out := &Type{Go: t, Size: t.Size()}
	b[t] = out
	if t.Kind() != reflect.Pointer {
		out.Marshals, out.Unmarshals = has[json.Marshaler](t), has[json.Unmarshaler](t)
	}
	switch k := kinds[t]; {
	case k != Foreign:
		out.Kind = k
	case out.Marshals || out.Unmarshals:
		out.Kind = Own
	default:
		out.Kind = plain(t)
	}
	if Int <= out.Kind && out.Kind <= Float {
		out.Bits = t.Bits()
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
		if out.Kind != Own {
			out.Elem = b.of(t.Elem())
		}
	case reflect.Struct:
		b.fields(out)
	}
	if out.Kind != Struct {
		out.Holds = own(out)
	}
	return out
}

// has says that the values of a type which are somewhere in memory have the methods of an interface.
func has[I any](t reflect.Type) bool { return reflect.PointerTo(t).Implements(reflect.TypeFor[I]()) }

// plain is the kind of a type without methods of its own.
func plain(t reflect.Type) Kind {
	switch {
	case t.Kind() != reflect.Pointer && (has[encoding.TextMarshaler](t) || has[encoding.TextUnmarshaler](t)):
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return Bytes
	case t.Kind() == reflect.Map && plain(t.Key()) == String:
		return Map
	case int(t.Kind()) < len(byGo):
		return byGo[t.Kind()]
	}
	return Foreign
}

// byGo are the kinds of what Go has.
var byGo = [...]Kind{
	reflect.Bool: Bool, reflect.Int: Int, reflect.Int8: Int, reflect.Int16: Int, reflect.Int32: Int, reflect.Int64: Int,
	reflect.Uint: Uint, reflect.Uint8: Uint, reflect.Uint16: Uint, reflect.Uint32: Uint, reflect.Uint64: Uint,
	reflect.Float32: Float, reflect.Float64: Float, reflect.String: String, reflect.Pointer: Pointer, reflect.Slice: List, reflect.Struct: Struct,
}

// own is what values hold apart from what those in them hold.
func own(t *Type) Holds {
	switch t.Kind {
	case Foreign:
		return HoldsForeign
	case Quantity:
		return HoldsQuantity
	case Own, RawExtension, FieldsV1:
		return HoldsOwn
	case Pointer:
		switch k := t.Elem.Kind; {
		case k == Pointer:
			return HoldsForeign
		case k == Time, k == MicroTime, own(t.Elem) == HoldsOwn:
			return HoldsNull
		}
	}
	return 0
}

// fields adds the fields of a struct. Structs that are not exported are among them if they are embedded, as JSON has their fields.
func (b builder) fields(t *Type) {
	for i := range t.Go.NumField() {
		sf := t.Go.Field(i)
		if t.Hidden = t.Hidden || !sf.IsExported(); !sf.IsExported() && !sf.Anonymous {
			continue
		}
		f := Field{Go: &sf, Path: sf.Index, index: i, Offset: sf.Offset, Type: b.of(sf.Type)}
		if !f.readJSON() {
			t.Holds |= HoldsForeign
		}
		if f.readProtobuf(); f.Number > 0 {
			for len(t.byNumber) <= f.Number {
				t.byNumber = append(t.byNumber, -1)
			}
			t.byNumber[f.Number] = len(t.Fields)
		}
		t.Fields = append(t.Fields, f)
	}
}

// readJSON reads the tag json; false: it has something that API objects do not have.
func (f *Field) readJSON() (usual bool) {
	tag := f.Go.Tag.Get("json")
	if tag == "-" {
		return true
	}
	usual = f.Go.IsExported()
	name, options, _ := strings.Cut(tag, ",")
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			f.Empty = true
		case "omitzero":
			f.Zero = value.OmitZeroFunc(f.Go.Type)
		case "inline":
			f.Inline = name == ""
		case "":
		default:
			usual = false
		}
	}
	if f.Inline = f.Inline || name == "" && f.Go.Anonymous; f.Inline {
		return usual && f.Go.Anonymous && f.Type.Kind == Struct
	}
	if f.Name = name; name == "" {
		f.Name = f.Go.Name
	}
	f.Key = strconv.Quote(f.Name) + ":"
	f.Optional = f.Zero != nil || f.Empty && f.Go.Type.Kind() != reflect.Struct
	return usual
}

// readProtobuf reads the tag protobuf, as `bytes,1,opt,name=metadata`.
func (f *Field) readProtobuf() {
	_, rest, _ := strings.Cut(f.Go.Tag.Get("protobuf"), ",")
	number, _, _ := strings.Cut(rest, ",")
	if n, err := strconv.Atoi(number); err == nil && 0 < n && n <= maxNumber {
		f.Number = n
	}
}

// complete adds what depends on other types.
func (b builder) complete() {
	for _, t := range b {
		b.members(t)
	}
	for _, t := range b {
		for i := range t.Members {
			t.Members[i].readStrategy()
		}
	}
	for changed := true; changed; {
		changed = false
		for _, t := range b {
			was := t.Holds
			if t.Elem != nil {
				t.Holds |= t.Elem.Holds
			}
			for i := range t.Members {
				t.Holds |= t.Members[i].Type.Holds
			}
			changed = changed || t.Holds != was
		}
	}
}

// members adds the members of a struct, as encoding/json has them.
func (b builder) members(t *Type) {
	if t.Kind != Struct || t.byName != nil {
		return
	}
	t.byName = map[string]int{}
	for _, f := range t.Fields {
		if f.Name != "" {
			t.Members = append(t.Members, f)
		}
		if f.Inline && f.Type.Kind == Struct {
			b.members(f.Type)
			t.Holds |= f.Type.Holds & HoldsForeign
			for _, m := range f.Type.Members {
				m.Path, m.Offset = append(slices.Clone(f.Path), m.Path...), f.Offset+m.Offset
				t.Members = append(t.Members, m)
			}
		}
	}
	for i := range t.Members {
		t.byName[t.Members[i].Name] = i
		t.Sorted = append(t.Sorted, &t.Members[i])
	}
	if len(t.byName) < len(t.Members) || len(t.Members) > maxMembers {
		t.Holds |= HoldsForeign
	}
	slices.SortFunc(t.Sorted, func(a, b *Field) int { return strings.Compare(a.Name, b.Name) })
}

// readStrategy reads the tags that say how a strategic merge patch changes the field.
func (f *Field) readStrategy() {
	for strategy := range strings.SplitSeq(f.Go.Tag.Get("patchStrategy"), ",") {
		switch {
		case strategy == "replace" && f.Type.Merges():
			f.Unusual = true
			return
		case strategy == "merge" && f.Type.Kind == List:
			f.Merge = true
			if key := f.Go.Tag.Get("patchMergeKey"); key == "" {
				f.Unusual = f.Type.Elem.Kind != String
			} else if f.MergeKey = f.Type.Elem.Member(key); f.MergeKey == nil || f.MergeKey.Type.Kind != String && f.MergeKey.Type.Kind != Int {
				f.Unusual = true
			}
			return
		}
	}
}
