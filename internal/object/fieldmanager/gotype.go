package fieldmanager

import (
	"reflect"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// kinds are those of the values of Go types. What is written by methods that are not known has the kind of what they write.
var kinds = [...]kind{
	apitype.Bool: boolean, apitype.Int: number, apitype.Uint: number, apitype.Float: number, apitype.String: text, apitype.Bytes: text,
	apitype.List: list, apitype.Map: object, apitype.Strings: object, apitype.Quantities: object, apitype.Struct: object,
	apitype.Time: text, apitype.MicroTime: text, apitype.Duration: text, apitype.Quantity: text, apitype.FieldsV1: absent,
}

// made is the type of values that were read from an encoding.
var made = &apitype.Type{}

// heldText is the type of the texts of a map of texts.
var heldText = &apitype.Type{Kind: apitype.String}

// isOwn says that values have an encoding of their own, which is to be read.
func isOwn(t *apitype.Type) bool {
	return t.Kind == apitype.Own || t.Kind == apitype.RawExtension || t.Kind == apitype.FieldsV1
}

// fieldIn returns a field of a struct, and false if it is left out.
func fieldIn(v reflect.Value, f *apitype.Field) (reflect.Value, bool) {
	rv := f.In(v)
	return rv, !f.Omits(rv)
}

// isAlways says that a field is never left out, and no value of it is null.
func isAlways(f *apitype.Field) bool {
	k := f.Type.Kind
	return !f.Optional && k != apitype.Time && k != apitype.MicroTime && k != apitype.Quantity
}

// keyOf returns a key of a map.
func keyOf(t *apitype.Type, name string) reflect.Value {
	return reflect.ValueOf(name).Convert(t.Go.Key())
}
