package openapi

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// typesBin is written by gen/encode.go, which describes its format. As a string it stays in the mapped executable:
// names are substrings of it and need no memory.
//
//go:embed data/types.bin
var typesBin string

// types decodes the schemas of the built-in kinds, each type once, on demand.
type types struct {
	kinds map[runtimeschema.GroupVersionKind]int
	names []string
	atoms []string // encoded

	mu       sync.Mutex
	decoded  map[int]schema.Atom // by index
	reaches  map[int][]int       // the types that a decoded type refers to
	parsable map[runtimeschema.GroupVersionKind]*typed.ParseableType
}

func readTypes(file string) *types {
	t := &types{
		kinds:    map[runtimeschema.GroupVersionKind]int{},
		decoded:  map[int]schema.Atom{},
		reaches:  map[int][]int{},
		parsable: map[runtimeschema.GroupVersionKind]*typed.ParseableType{},
	}
	r := reader{rest: file}
	for range r.int() {
		gvk := runtimeschema.GroupVersionKind{Group: r.string(), Version: r.string(), Kind: r.string()}
		t.kinds[gvk] = r.int()
	}
	n := r.int()
	t.names, t.atoms = make([]string, n), make([]string, n)
	for i := range n {
		t.names[i], t.atoms[i] = r.string(), r.string()
	}
	return t
}

// of returns the type of a kind, or nil. Its schema contains only the types reachable from the kind.
func (t *types) of(gvk runtimeschema.GroupVersionKind) *typed.ParseableType {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.parsable[gvk]; p != nil {
		return p
	}
	root, ok := t.kinds[gvk]
	if !ok {
		// A version that is not served by default differs from v1 in nothing but its name.
		root, ok = t.kinds[runtimeschema.GroupVersionKind{Group: gvk.Group, Version: "v1", Kind: gvk.Kind}]
	}
	if !ok {
		return nil
	}
	s := &schema.Schema{}
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		i := queue[0]
		s.Types = append(s.Types, schema.TypeDef{Name: t.names[i], Atom: t.decode(i)})
		for _, next := range t.reaches[i] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	p := &typed.ParseableType{Schema: s, TypeRef: schema.TypeRef{NamedType: &t.names[root]}}
	t.parsable[gvk] = p
	return p
}

// decode decodes a type; t.mu is held.
func (t *types) decode(i int) schema.Atom {
	a, ok := t.decoded[i]
	if !ok {
		r := reader{rest: t.atoms[i], names: t.names}
		a = r.atom()
		t.decoded[i], t.reaches[i] = a, r.reached
	}
	return a
}

// reader decodes the encoding of gen/encode.go. It panics on invalid data, because the file is part of the program.
type reader struct {
	rest    string
	names   []string
	reached []int
}

func (r *reader) int() int {
	// The longest varint has ten bytes.
	n, size := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if size <= 0 {
		panic("openapi: types.bin is cut off")
	}
	r.rest = r.rest[size:]
	return int(n)
}

func (r *reader) string() string {
	n := r.int()
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *reader) atom() schema.Atom {
	var a schema.Atom
	flags := r.int()
	if flags&1 != 0 {
		a.Scalar = &scalars[r.int()]
	}
	if flags&2 != 0 {
		a.List = &schema.List{ElementType: r.ref(), ElementRelationship: relationships[r.int()]}
		for range r.int() {
			a.Keys = append(a.Keys, r.string())
		}
	}
	if flags&4 != 0 {
		a.Map = r.fields()
	}
	return a
}

func (r *reader) fields() *schema.Map {
	m := &schema.Map{}
	if n := r.int(); n > 0 {
		m.Fields = make([]schema.StructField, n)
	}
	for i := range m.Fields {
		m.Fields[i] = schema.StructField{Name: r.string(), Type: r.ref(), Default: defaultValue(r.string())}
	}
	m.ElementType = r.ref()
	m.ElementRelationship = relationships[r.int()]
	return m
}

func (r *reader) ref() schema.TypeRef {
	var ref schema.TypeRef
	tag := r.int()
	if tag&4 != 0 {
		ref.ElementRelationship = &relationships[r.int()]
	}
	switch tag &^ 4 {
	case 0:
		ref.Inlined = r.atom()
	case 1:
		i := r.int()
		ref.NamedType = &r.names[i]
		r.reached = append(r.reached, i)
	}
	return ref
}

// defaultValue parses a field's default. Whole numbers are int64, as in the objects that they are compared with.
func defaultValue(text string) any {
	if text == "" {
		return nil
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(fmt.Sprintf("openapi: default %q in types.bin: %v", text, err))
	}
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		return int64(f)
	}
	return v
}

// Schemas point to these variables; they are never written.
var (
	scalars       = [...]schema.Scalar{schema.Numeric, schema.String, schema.Boolean, schema.Untyped}
	relationships = [...]schema.ElementRelationship{"", schema.Associative, schema.Atomic, schema.Separable}
)
