package main

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// encodeTypes encodes the schemas of all types in the documents so that package openapi can decode them one by one.
// Numbers are varints, a text is its length and its bytes:
//
//	file    number of kinds, then each: group, version, kind, index of its type;
//	        number of types, then each: name, length of its atom, atom
//	atom    flags (1 scalar, 2 list, 4 map), then those that are there
//	scalar  0 numeric, 1 string, 2 boolean, 3 untyped
//	list    ref of the elements, relationship, number of keys, keys
//	map     number of fields, then each: name, ref, default as JSON (empty: none);
//	        ref of the elements, relationship
//	ref     0 an inlined atom, 1 a named type's index, 2 nothing; + 4: a relationship goes before
//
//	relationship  0 none, 1 associative, 2 atomic, 3 separable
func encodeTypes(docs map[string][]byte) ([]byte, error) {
	models, err := schemasOf(docs)
	if err != nil {
		return nil, err
	}
	converted, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	if err != nil {
		return nil, err
	}
	types := converted.Types
	slices.SortFunc(types, func(a, b schema.TypeDef) int { return cmp.Compare(a.Name, b.Name) })
	e := &encoder{index: map[string]uint64{}}
	for i := range types {
		e.index[types[i].Name] = uint64(i)
	}
	if err := e.kinds(models); err != nil {
		return nil, err
	}
	e.uint(uint64(len(types)))
	for i := range types {
		atom := &encoder{index: e.index}
		if err := atom.atom(&types[i].Atom); err != nil {
			return nil, fmt.Errorf("type %s: %w", types[i].Name, err)
		}
		e.string(types[i].Name)
		e.string(string(atom.out))
	}
	return e.out, nil
}

func schemasOf(docs map[string][]byte) (map[string]*spec.Schema, error) {
	all := map[string]*spec.Schema{}
	for _, path := range sortedKeys(docs) {
		var doc struct {
			Components struct {
				Schemas map[string]*spec.Schema `json:"schemas"`
			} `json:"components"`
		}
		if err := json.Unmarshal(docs[path], &doc); err != nil {
			return nil, fmt.Errorf("document %s: %w", path, err)
		}
		for name, s := range doc.Components.Schemas {
			all[name] = s
		}
	}
	return all, nil
}

type encoder struct {
	out   []byte
	index map[string]uint64 // of types, by name
}

func (e *encoder) uint(n uint64)   { e.out = binary.AppendUvarint(e.out, n) }
func (e *encoder) string(s string) { e.uint(uint64(len(s))); e.out = append(e.out, s...) }

func (e *encoder) kinds(models map[string]*spec.Schema) error {
	type kind struct {
		Group, Version, Kind string
		index                uint64
	}
	var kinds []kind
	for _, name := range sortedKeys(models) {
		extension, ok := models[name].Extensions["x-kubernetes-group-version-kind"]
		if !ok || !isObject(models[name]) {
			continue
		}
		data, err := json.Marshal(extension)
		if err != nil {
			return err
		}
		var gvks []kind
		if err := json.Unmarshal(data, &gvks); err != nil {
			return fmt.Errorf("type %s: %w", name, err)
		}
		for _, k := range gvks {
			k.index = e.index[name]
			kinds = append(kinds, k)
		}
	}
	e.uint(uint64(len(kinds)))
	for _, k := range kinds {
		e.string(k.Group)
		e.string(k.Version)
		e.string(k.Kind)
		e.uint(k.index)
	}
	return nil
}

// isObject reports whether a kind has object metadata, and so managed fields; lists, options and watch events do not.
func isObject(s *spec.Schema) bool {
	metadata, ok := s.Properties["metadata"]
	return ok && len(metadata.AllOf) == 1 && strings.HasSuffix(metadata.AllOf[0].Ref.String(), ".ObjectMeta")
}

func (e *encoder) atom(a *schema.Atom) error {
	var flags uint64
	if a.Scalar != nil {
		flags |= 1
	}
	if a.List != nil {
		flags |= 2
	}
	if a.Map != nil {
		flags |= 4
	}
	e.uint(flags)
	if a.Scalar != nil {
		i := slices.Index([]schema.Scalar{schema.Numeric, schema.String, schema.Boolean, schema.Untyped}, *a.Scalar)
		if i < 0 {
			return fmt.Errorf("unknown scalar %q", *a.Scalar)
		}
		e.uint(uint64(i))
	}
	if l := a.List; l != nil {
		if err := e.ref(&l.ElementType); err != nil {
			return err
		}
		if err := e.relationship(l.ElementRelationship); err != nil {
			return err
		}
		e.uint(uint64(len(l.Keys)))
		for _, k := range l.Keys {
			e.string(k)
		}
	}
	if a.Map != nil {
		return e.fields(a.Map)
	}
	return nil
}

func (e *encoder) fields(m *schema.Map) error {
	if len(m.Unions) > 0 {
		return fmt.Errorf("unions have no encoding")
	}
	slices.SortFunc(m.Fields, func(a, b schema.StructField) int { return cmp.Compare(a.Name, b.Name) })
	e.uint(uint64(len(m.Fields)))
	for i := range m.Fields {
		f := &m.Fields[i]
		e.string(f.Name)
		if err := e.ref(&f.Type); err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		value := []byte{}
		if f.Default != nil {
			var err error
			if value, err = json.Marshal(f.Default); err != nil {
				return err
			}
		}
		e.string(string(value))
	}
	if err := e.ref(&m.ElementType); err != nil {
		return err
	}
	return e.relationship(m.ElementRelationship)
}

func (e *encoder) ref(r *schema.TypeRef) error {
	var tag uint64
	switch {
	case r.NamedType != nil:
		tag = 1
	case r.Inlined == (schema.Atom{}):
		tag = 2
	}
	if r.ElementRelationship != nil {
		e.uint(tag + 4)
		if err := e.relationship(*r.ElementRelationship); err != nil {
			return err
		}
	} else {
		e.uint(tag)
	}
	switch tag {
	case 0:
		return e.atom(&r.Inlined)
	case 1:
		i, ok := e.index[*r.NamedType]
		if !ok {
			return fmt.Errorf("unknown type %q", *r.NamedType)
		}
		e.uint(i)
	}
	return nil
}

func (e *encoder) relationship(r schema.ElementRelationship) error {
	i := slices.Index([]schema.ElementRelationship{"", schema.Associative, schema.Atomic, schema.Separable}, r)
	if i < 0 {
		return fmt.Errorf("unknown element relationship %q", r)
	}
	e.uint(uint64(i))
	return nil
}
