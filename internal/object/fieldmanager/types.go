package fieldmanager

import (
	"cmp"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// fieldType is a type of field management: what a value may be. Of the shapes that it has, a value has one.
type fieldType struct {
	shapes shapes
	scalar schema.Scalar
	list   *listType
	object *objectType
}

type shapes byte

const (
	objectShape shapes = 1 << iota
	scalarShape
	listShape
)

// of returns the shapes that a value of the kind can have.
func (t *fieldType) of(k kind) shapes {
	want := shapes(0)
	switch k {
	case boolean, number, text:
		want = scalarShape
	case list:
		want = listShape
	case object:
		want = objectShape
	}
	if t.shapes&want != 0 {
		return want
	}
	return t.shapes
}

type listType struct {
	atomic, associative bool
	keys                []keyType // sorted by name; none: a set of scalars
	items               typeRef
}

// keyType is a field of the key of a list's items.
type keyType struct {
	name string
	def  any // nil: none
}

type objectType struct {
	atomic bool
	// free says that nothing is known of the fields.
	free   bool
	fields []structField // sorted by name
	others *typeRef      // the type of other fields; nil: there are none
}

type structField struct {
	name string
	typeRef
}

// field returns the type of a field, or nil if there is no such field.
func (t *objectType) field(name string) *typeRef {
	i := sort.Search(len(t.fields), func(i int) bool { return t.fields[i].name >= name })
	if i < len(t.fields) && t.fields[i].name == name {
		return &t.fields[i].typeRef
	}
	return t.others
}

// typeRef refers to a type, which is compiled when it is first needed.
type typeRef struct {
	ref schema.TypeRef
	to  atomic.Pointer[fieldType]
}

// types compiles the types of a schema.
type types struct {
	schema *schema.Schema
	root   typeRef
	mu     sync.Mutex
	named  map[namedType]*fieldType // guarded by mu
	tame   tameness
}

type namedType struct {
	name         string
	relationship schema.ElementRelationship
}

func newTypes(t *typed.ParseableType) *types {
	ts := &types{schema: t.Schema, named: map[namedType]*fieldType{}}
	ts.root.ref = t.TypeRef
	return ts
}

// get returns the type that r refers to. One that is not there has no shape.
func (ts *types) get(r *typeRef) *fieldType {
	if t := r.to.Load(); t != nil {
		return t
	}
	t := ts.resolve(r.ref)
	r.to.Store(t)
	return t
}

func (ts *types) resolve(ref schema.TypeRef) *fieldType {
	if ref.NamedType == nil {
		return ts.compile(ref)
	}
	key := namedType{name: *ref.NamedType}
	if ref.ElementRelationship != nil {
		key.relationship = *ref.ElementRelationship
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.named[key]
	if t == nil {
		t = ts.compile(ref)
		ts.named[key] = t
	}
	return t
}

func (ts *types) compile(ref schema.TypeRef) *fieldType {
	t := &fieldType{}
	atom, ok := ts.schema.Resolve(ref)
	if !ok {
		return t
	}
	if atom.Map != nil {
		t.shapes |= objectShape
		t.object = objectOf(atom.Map)
	}
	if atom.Scalar != nil {
		t.shapes |= scalarShape
		t.scalar = *atom.Scalar
	}
	if atom.List != nil {
		t.shapes |= listShape
		t.list = ts.listOf(atom.List)
	}
	return t
}

func objectOf(m *schema.Map) *objectType {
	t := &objectType{atomic: m.ElementRelationship == schema.Atomic, free: isFree(m), fields: make([]structField, len(m.Fields))}
	for i, f := range slices.SortedStableFunc(slices.Values(m.Fields), func(a, b schema.StructField) int { return cmp.Compare(a.Name, b.Name) }) {
		t.fields[i].name, t.fields[i].ref = f.Name, f.Type
	}
	if m.ElementType != (schema.TypeRef{}) {
		t.others = &typeRef{ref: m.ElementType}
	}
	return t
}

// isFree reports whether field management takes a map for one of which nothing is known.
func isFree(m *schema.Map) bool {
	if m.Fields != nil {
		return false
	}
	if t := m.ElementType; t.NamedType != nil {
		return *t.NamedType == "__untyped_deduced_"
	}
	s := m.ElementType.Inlined.Scalar
	return s != nil && *s == schema.Untyped
}

func (ts *types) listOf(l *schema.List) *listType {
	t := &listType{atomic: l.ElementRelationship == schema.Atomic, associative: l.ElementRelationship == schema.Associative}
	t.items.ref = l.ElementType
	if len(l.Keys) == 0 {
		return t
	}
	items, _ := ts.schema.Resolve(l.ElementType)
	for _, name := range l.Keys {
		k := keyType{name: name}
		if items.Map != nil {
			f, _ := items.Map.FindField(name)
			k.def = f.Default
		}
		t.keys = append(t.keys, k)
	}
	slices.SortStableFunc(t.keys, func(a, b keyType) int { return cmp.Compare(a.name, b.name) })
	return t
}

// fits reports whether a value of the kind fits a scalar of the type.
func (t *fieldType) fits(k kind) bool {
	switch k {
	case absent, null:
		return true
	}
	switch t.scalar {
	case schema.Numeric:
		return k == number
	case schema.String:
		return k == text
	case schema.Boolean:
		return k == boolean
	case schema.Untyped:
		return k == number || k == text || k == boolean
	}
	return false
}
