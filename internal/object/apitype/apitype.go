// Package apitype describes the Go types of API objects: each is one tree of fields, with their names in JSON and their numbers
// in protobuf, how they are written, and how a patch merges them. To compare, decode, transcode, own fields and derive schemas
// are walks over that tree, so reflection is asked about a type once.
package apitype

import (
	"reflect"
	"sync"
)

// Type is a Go type. It does not change once Of has returned it.
type Type struct {
	Go    reflect.Type
	Kind  Kind
	Bits  int // of a number
	Size  uintptr
	Holds Holds
	Elem  *Type // of a pointer, list, map or array
	// Marshals and Unmarshals say that the type has methods that write and read its JSON.
	Marshals, Unmarshals bool

	// Fields are those of a struct as Go has them: an embedded struct is one. Hidden says that it has others, which are not exported.
	Fields []Field
	Hidden bool
	// Members are the fields of a struct as JSON has them, with those of embedded structs, in the order in which they are written.
	Members  []Field
	Sorted   []*Field       // the members by name
	byName   map[string]int // in Members
	byNumber []int          // in Fields; -1: none
}

// Kind is how values are written in JSON.
type Kind uint8

const (
	Foreign Kind = iota // API objects have no such field: an interface, an array, a map with keys that are no strings
	Bool
	Int
	Uint
	Float
	String
	Bytes // base64
	Pointer
	List
	Map
	Strings    // map[string]string
	Quantities // corev1.ResourceList
	Struct
	// The kinds from here on have methods that write them; Own are those that have no kind for themselves.
	Own
	Time
	MicroTime
	Duration
	Quantity
	IntOrString
	RawExtension
	FieldsV1
)

// Holds are things that a value may have, at any depth.
type Holds uint8

const (
	HoldsQuantity Holds = 1 << iota
	HoldsNull           // a pointer to what is null in JSON, as a time that is zero is
	HoldsOwn            // what only its methods can write
	HoldsForeign        // what makes it unlike any API object
)

// types are all that were asked for. They are the same for everyone in a process, as the Go types are.
var types struct {
	sync.Mutex          // of who adds to known
	known      sync.Map // of *Type by reflect.Type
}

// Of returns the tree of a type.
func Of(t reflect.Type) *Type {
	if known, ok := types.known.Load(t); ok {
		return known.(*Type)
	}
	types.Lock()
	defer types.Unlock()
	b := builder{}
	of := b.of(t)
	b.complete()
	for t, built := range b {
		types.known.Store(t, built)
	}
	return of
}

// Place is where a name is among the members of a struct; -1: nowhere.
func (t *Type) Place(name string) int {
	if n, ok := t.byName[name]; ok {
		return n
	}
	return -1
}

// Member returns the member of a struct that has a name, or nil.
func (t *Type) Member(name string) *Field {
	if n := t.Place(name); n >= 0 {
		return &t.Members[n]
	}
	return nil
}

// Numbered is where a number of protobuf is among the fields of a struct; -1: nowhere.
func (t *Type) Numbered(number uint64) int {
	if number < uint64(len(t.byNumber)) {
		return t.byNumber[number]
	}
	return -1
}

// Bare returns a type without its pointer.
func (t *Type) Bare() *Type {
	if t.Kind == Pointer {
		return t.Elem
	}
	return t
}

// Merges says that a patch of a value is merged into it and does not replace it.
func (t *Type) Merges() bool { k := t.Bare().Kind; return Map <= k && k <= Struct }

// Field is a field of a struct.
type Field struct {
	Type *Type
	Key  string // the name in JSON as it is written: `"name":`; empty: it is not there, or Inline
	Name string
	// Inline says that the field is an embedded struct, whose fields JSON has in its place.
	Inline bool
	// Optional says that JSON leaves out the field if it is Go's zero; Empty, that it does so if it is empty; Zero, if Zero says so.
	Optional, Empty bool
	index           int   // the step of Path, if it has one
	Path            []int // to the field, from the struct whose member it is
	Offset          uintptr
	Number          int // in protobuf; 0: none
	Zero            func(reflect.Value) bool
	// Merge says that a strategic merge patch merges the items of the list, told apart by a member of theirs or, if MergeKey is nil,
	// by themselves. Unusual is a field that such a patch changes in a way that next to no field has.
	Merge, Unusual bool
	MergeKey       *Field
	Go             *reflect.StructField
}

// In returns the field of a struct.
func (f *Field) In(v reflect.Value) reflect.Value {
	if len(f.Path) > 1 {
		return v.FieldByIndex(f.Path)
	}
	return v.Field(f.index)
}

// Omits says that JSON leaves out the field if it has a value.
func (f *Field) Omits(v reflect.Value) bool {
	return f.Optional && (f.Empty && isEmpty(f.Type.Kind, v) || f.Zero != nil && f.Zero(v))
}

func isEmpty(k Kind, v reflect.Value) bool {
	switch k {
	case Pointer:
		return v.IsNil()
	case String, Bytes, List, Map, Strings, Quantities:
		return v.Len() == 0
	case Bool:
		return !v.Bool()
	case Int:
		return v.Int() == 0
	case Uint, Float:
		return v.IsZero()
	case Own:
		return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
	}
	return false
}

// As reads a value of type T, without a copy where it has a place in memory.
func As[T any](v reflect.Value) *T {
	if v.CanAddr() {
		return v.Addr().Interface().(*T)
	}
	t := v.Interface().(T)
	return &t
}
