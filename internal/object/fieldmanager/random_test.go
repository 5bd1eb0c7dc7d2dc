package fieldmanager

import (
	"fmt"
	"math/rand"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// random makes types and values.
type random struct{ *rand.Rand }

func pick[T any](r random, of ...T) T { return of[r.Intn(len(of))] }

func named(name string) schema.TypeRef { return schema.TypeRef{NamedType: &name} }

func ofScalar(s schema.Scalar) schema.TypeRef {
	return schema.TypeRef{Inlined: schema.Atom{Scalar: &s}}
}

const (
	deducedType = "__untyped_deduced_"
	untypedType = "__untyped_atomic_"
)

// definition makes a type for each of two versions.
func (r random) definition() definition {
	d := definition{}
	for _, v := range []string{"v1", "v2"} {
		types := []schema.TypeDef{{Name: "root", Atom: schema.Atom{Map: &schema.Map{Fields: []schema.StructField{
			{Name: "apiVersion", Type: ofScalar(schema.String)}, {Name: "kind", Type: ofScalar(schema.String)},
			{Name: "metadata", Type: named("meta")}, {Name: "spec", Type: named("0")}, {Name: "status", Type: named("1")},
		}}}}}
		for i := range 5 {
			types = append(types, schema.TypeDef{Name: fmt.Sprint(i), Atom: r.atom(i)})
		}
		item := &schema.Map{Fields: []schema.StructField{
			{Name: "name", Type: ofScalar(schema.String), Default: pick[any](r, nil, "a")}, {Name: "port", Type: ofScalar(schema.Numeric), Default: pick[any](r, nil, int64(1), 1.0)},
			{Name: "a", Type: r.ref()}, {Name: "b", Type: r.ref()}}, ElementRelationship: pick(r, "", "", schema.Atomic)}
		types = append(types, schema.TypeDef{Name: "item", Atom: schema.Atom{Map: item}})
		parser := typed.Parser{Schema: schema.Schema{Types: append(types, common()...)}}
		t := parser.Type("root")
		d[v] = &t
	}
	return d
}

func common() []schema.TypeDef {
	texts := schema.TypeRef{Inlined: schema.Atom{Map: &schema.Map{ElementType: ofScalar(schema.String)}}}
	untyped := schema.Scalar(schema.Untyped)
	list := &schema.List{ElementType: named(untypedType), ElementRelationship: schema.Atomic}
	return []schema.TypeDef{
		{Name: "meta", Atom: schema.Atom{Map: &schema.Map{Fields: []schema.StructField{
			{Name: "labels", Type: texts}, {Name: "managedFields", Type: named(untypedType)},
			{Name: "name", Type: ofScalar(schema.String)}, {Name: "uid", Type: ofScalar(schema.String)},
			{Name: "creationTimestamp", Type: ofScalar(schema.Untyped)},
		}}}},
		{Name: untypedType, Atom: schema.Atom{Scalar: &untyped, List: list,
			Map: &schema.Map{ElementType: named(untypedType), ElementRelationship: schema.Atomic}}},
		{Name: deducedType, Atom: schema.Atom{Scalar: &untyped, List: list,
			Map: &schema.Map{ElementType: named(deducedType), ElementRelationship: schema.Separable}}},
	}
}

func (r random) atom(i int) (a schema.Atom) {
	switch r.Intn(10) {
	case 0:
		a.List = r.list()
	case 1: // of no one type
		a.Scalar, a.List, a.Map = ofScalar(schema.Untyped).Inlined.Scalar, r.list(), r.object()
	default:
		a.Map = r.object()
	}
	return a
}

func (r random) object() *schema.Map {
	m := &schema.Map{ElementRelationship: pick(r, "", "", schema.Separable, schema.Atomic)}
	for _, name := range []string{"a", "b", "c", "name", "port"} {
		if r.Intn(3) > 0 {
			m.Fields = append(m.Fields, schema.StructField{Name: name, Type: r.ref(), Default: pick[any](r, nil, nil, "x", int64(1), 1.0, true)})
		}
	}
	if r.Intn(2) == 0 {
		m.ElementType = r.ref()
	}
	return m
}

func (r random) list() *schema.List {
	l := &schema.List{ElementType: r.ref(), ElementRelationship: pick(r, schema.Atomic, schema.Associative, schema.Associative, schema.Associative)}
	if l.ElementRelationship == schema.Associative {
		if l.Keys = pick(r, nil, []string{"name"}, []string{"port", "name"}); l.Keys == nil {
			l.ElementType = ofScalar(pick(r, schema.String, schema.Numeric, schema.Untyped))
		} else if r.Intn(20) > 0 {
			l.ElementType = named("item")
		}
	}
	return l
}

func (r random) ref() schema.TypeRef {
	switch r.Intn(8) {
	case 0, 1, 2:
		return ofScalar(pick(r, schema.String, schema.Numeric, schema.Boolean, schema.Untyped))
	case 3:
		return named(pick(r, deducedType, untypedType))
	case 4:
		return schema.TypeRef{Inlined: schema.Atom{List: r.list()}}
	}
	t := named(fmt.Sprint(r.Intn(5)))
	if r.Intn(5) == 0 && *t.NamedType != "" {
		t.ElementRelationship = pick(r, &[]schema.ElementRelationship{schema.Atomic}[0], nil)
	}
	return t
}

// value makes a value that mostly is of a type.
func (r random) value(s *schema.Schema, ref schema.TypeRef, depth int) any {
	a, _ := s.Resolve(ref)
	if r.Intn(80) == 0 {
		return nil
	}
	if r.Intn(400) == 0 || depth > 7 {
		a = schema.Atom{Scalar: ofScalar(schema.Untyped).Inlined.Scalar}
	}
	var made []any
	if a.Scalar != nil {
		made = append(made, r.scalar(*a.Scalar))
	}
	if a.List != nil {
		items := []any{}
		for range r.Intn(4) {
			items = append(items, r.value(s, a.List.ElementType, depth+1))
		}
		made = append(made, items)
	}
	if a.Map != nil {
		made = append(made, r.fields(s, a.Map, depth))
	}
	if len(made) == 0 {
		return "none"
	}
	return pick(r, made...)
}

func (r random) fields(s *schema.Schema, m *schema.Map, depth int) map[string]any {
	out := map[string]any{}
	for _, f := range m.Fields {
		if r.Intn(3) > 0 || f.Name == "name" && r.Intn(30) > 0 {
			out[f.Name] = r.value(s, f.Type, depth+1)
		}
	}
	if m.ElementType != (schema.TypeRef{}) {
		for range r.Intn(3) {
			out[pick(r, "d", "e", "é\"<")] = r.value(s, m.ElementType, depth+1)
		}
	}
	return out
}

func (r random) scalar(s schema.Scalar) any {
	switch s {
	case schema.String:
		return pick(r, "a", "b", "c", "", "é<\"&")
	case schema.Numeric:
		if r.Intn(40) == 0 {
			return pick[any](r, 2.5, int64(1)<<60)
		}
		return pick[any](r, int64(0), int64(1), int64(2), 1.0, 0.0)
	case schema.Boolean:
		return r.Intn(2) == 0
	}
	return pick[any](r, "a", int64(1), true, 1.5, "b")
}

// change changes a value somewhere, or makes another.
func (r random) change(s *schema.Schema, ref schema.TypeRef, v any, depth int) any {
	a, _ := s.Resolve(ref)
	switch v := v.(type) {
	case map[string]any:
		if a.Map == nil || r.Intn(4) == 0 {
			break
		}
		for name, f := range v {
			of := a.Map.ElementType
			if sf, ok := a.Map.FindField(name); ok {
				of = sf.Type
			}
			if r.Intn(len(v)) == 0 {
				v[name] = r.change(s, of, f, depth+1)
				break
			}
		}
		if r.Intn(6) == 0 {
			delete(v, pick(r, "a", "b", "c", "name", "d"))
		}
		return v
	case []any:
		if a.List == nil || len(v) == 0 {
			break
		}
		i := r.Intn(len(v))
		switch r.Intn(4) {
		case 0:
			return append(v, runtime.DeepCopyJSONValue(v[i]))
		case 1:
			return append(v[:i:i], v[i+1:]...)
		case 2:
			return append(v, r.value(s, a.List.ElementType, depth+1))
		}
		v[i] = r.change(s, a.List.ElementType, v[i], depth+1)
		return v
	}
	return r.value(s, ref, depth)
}

// spoil gives an object managers that no server writes.
func (r random) spoil(of map[string]any) {
	meta, ok := of["metadata"].(map[string]any)
	if !ok {
		return
	}
	entries, _ := meta["managedFields"].([]any)
	if len(entries) == 0 || r.Intn(4) == 0 {
		meta["managedFields"] = pick[any](r, "x", []any{}, []any{map[string]any{}}, []any{"x"}, map[string]any{}, nil)
		return
	}
	e := entries[r.Intn(len(entries))].(map[string]any)
	none := map[string]any{}
	switch name := pick(r, "fieldsV1", "fieldsV1", "fieldsV1", "operation", "apiVersion", "time", "manager", "fieldsType", "more", "subresource"); name {
	case "fieldsV1":
		e[name] = pick[any](r, nil, "x", none,
			map[string]any{"f:spec": none, ".": none, "x:y": none}, map[string]any{"v:1": none, "v:1.0": none, "f:spec": none},
			map[string]any{"f:spec": map[string]any{".": none}, "f:status": map[string]any{"f:a": none, ".": none}}, map[string]any{"f:spec": "x"},
			map[string]any{"f:spec": map[string]any{`k:{"name":"a"}`: none, `k:{"port":1, "name":"a"}`: none, `v:true`: none, `v:"\u00e9"`: none, "i:1": none}})
	case "apiVersion":
		e[name] = pick[any](r, "example.com/v3", "", "a/b/c", int64(1))
	case "time":
		e[name] = pick[any](r, nil, "x", "2000-01-01T02:00:01+02:00", "2000-01-01T00:00:01.5Z")
	default:
		e[name] = pick[any](r, nil, "x", "", "Apply", int64(1))
	}
}

// prune leaves out a part of an object, and changes the order of lists.
func (r random) prune(of map[string]any) {
	for name, v := range of {
		if r.Intn(6) == 0 {
			delete(of, name)
			continue
		}
		switch v := v.(type) {
		case map[string]any:
			r.prune(v)
		case []any:
			if r.Intn(4) == 0 {
				r.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
			}
		}
	}
}
