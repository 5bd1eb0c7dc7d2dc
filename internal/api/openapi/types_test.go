package openapi

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// TestTypesAreTheDocuments compares every type that a kind reaches with the reference conversion of the embedded
// documents.
func TestTypesAreTheDocuments(t *testing.T) {
	set := newSet(t)
	models := map[string]*spec.Schema{}
	for _, d := range set.docs {
		var doc struct {
			Components struct{ Schemas map[string]*spec.Schema }
		}
		if err := json.Unmarshal(must(t)(d.JSON()), &doc); err != nil {
			t.Fatal(err)
		}
		for name, s := range doc.Components.Schemas {
			models[name] = s
		}
	}
	reference, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		t.Fatal(err)
	}
	c := NewTypeConverter()
	compared := map[string]bool{}
	for gvk := range c.types.kinds {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		want, err := reference.ObjectToTyped(obj)
		if err != nil {
			t.Errorf("%v: %v", gvk, err)
			continue
		}
		got, err := c.ObjectToTyped(obj)
		if err != nil {
			t.Errorf("%v: %v", gvk, err)
			continue
		}
		if got, want := *got.TypeRef().NamedType, *want.TypeRef().NamedType; got != want {
			t.Errorf("%v is %s, want %s", gvk, got, want)
		}
		for _, typ := range got.Schema().Types {
			if compared[typ.Name] {
				continue
			}
			compared[typ.Name] = true
			w, ok := want.Schema().FindNamedType(typ.Name)
			if !ok || !reflect.DeepEqual(plain(typ.Atom), plain(w.Atom)) {
				t.Errorf("type %s:\n got %v\nwant %v", typ.Name, plain(typ.Atom), plain(w.Atom))
			}
		}
		for _, name := range reached(want.Schema(), *want.TypeRef().NamedType) {
			if !compared[name] {
				t.Errorf("%v: type %s is missing", gvk, name)
			}
		}
	}
	if len(c.types.kinds) < 70 || len(compared) < 500 {
		t.Errorf("only %d kinds and %d types were compared", len(c.types.kinds), len(compared))
	}
}

// plain converts an atom to comparable values: fields by name, pointers followed, whole numbers of one type.
func plain(a schema.Atom) map[string]any {
	m := map[string]any{}
	if a.Scalar != nil {
		m["scalar"] = *a.Scalar
	}
	if l := a.List; l != nil {
		m["list"] = []any{plainRef(l.ElementType), l.ElementRelationship, append([]string{}, l.Keys...)}
	}
	if a.Map != nil {
		fields := map[string]any{}
		for _, f := range a.Map.Fields {
			def := f.Default
			if n, ok := def.(int64); ok {
				def = float64(n)
			}
			fields[f.Name] = []any{plainRef(f.Type), def}
		}
		m["map"] = []any{fields, len(a.Map.Unions), plainRef(a.Map.ElementType), a.Map.ElementRelationship}
	}
	return m
}

func plainRef(r schema.TypeRef) any {
	relationship := schema.ElementRelationship("")
	if r.ElementRelationship != nil {
		relationship = *r.ElementRelationship
	}
	if r.NamedType != nil {
		return []any{*r.NamedType, relationship}
	}
	return []any{plain(r.Inlined), relationship}
}

func reached(s *schema.Schema, root string) []string {
	var names []string
	seen := map[string]bool{}
	var visit func(a schema.Atom)
	ref := func(r schema.TypeRef) {
		if r.NamedType == nil {
			visit(r.Inlined)
			return
		}
		if !seen[*r.NamedType] {
			seen[*r.NamedType] = true
			names = append(names, *r.NamedType)
			t, _ := s.FindNamedType(*r.NamedType)
			visit(t.Atom)
		}
	}
	visit = func(a schema.Atom) {
		if a.List != nil {
			ref(a.List.ElementType)
		}
		if a.Map != nil {
			ref(a.Map.ElementType)
			for _, f := range a.Map.Fields {
				ref(f.Type)
			}
		}
	}
	ref(schema.TypeRef{NamedType: &root})
	return names
}

func TestTypeConverterKinds(t *testing.T) {
	c := NewTypeConverter()
	for _, gvk := range []runtimeschema.GroupVersionKind{
		{Version: "v1", Kind: "Pod"},
		{Group: "autoscaling", Version: "v1", Kind: "Scale"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
	} {
		if c.Type(gvk) == nil {
			t.Errorf("no type for %v", gvk)
		}
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(runtimeschema.GroupVersionKind{Group: "example.test", Version: "v1", Kind: "Gizmo"})
	if _, err := c.ObjectToTyped(obj); err == nil {
		t.Error("a kind that is not built in has a type")
	}
}

func TestTypeConverterRoundTrip(t *testing.T) {
	c := NewTypeConverter()
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
	}}
	v, err := c.ObjectToTyped(pod)
	if err != nil {
		t.Fatal(err)
	}
	back, err := c.TypedToObject(v)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, pod) {
		t.Errorf("got %v, want %v", back, pod)
	}
	pod.Object["spec"].(map[string]any)["nope"] = "x"
	if _, err := c.ObjectToTyped(pod); err == nil {
		t.Error("an unknown field is no error")
	}
}

func BenchmarkNewTypeConverter(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewTypeConverter()
	}
}

func BenchmarkFirstPod(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if NewTypeConverter().Type(runtimeschema.GroupVersionKind{Version: "v1", Kind: "Pod"}) == nil {
			b.Fatal("no type")
		}
	}
}
