package crd

import (
	"fmt"
	"reflect"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Ordered objects have the same sets of fields, differences and merge results as others.
func TestOrdered(t *testing.T) {
	object := func(from, to int) map[string]any {
		m := map[string]any{}
		for i := from; i < to; i++ {
			m[fmt.Sprint("f", i)] = map[string]any{"list": []any{int64(i), "x", map[string]any{"b": nil, "a": true}}, "n": int64(i % 7)}
		}
		return map[string]any{"spec": m}
	}
	as := func(v value.Value) *typed.TypedValue {
		tv, err := typed.AsTyped(v, typed.DeducedParseableType.Schema, typed.DeducedParseableType.TypeRef)
		if err != nil {
			t.Fatal(err)
		}
		return tv
	}
	a, b := object(0, 50), object(25, 90)
	b["spec"].(map[string]any)["f30"] = "other"
	plainA, plainB := as(value.NewValueInterface(a)), as(value.NewValueInterface(b))
	orderedA, orderedB := as(ordered{value.NewValueInterface(a)}), as(ordered{value.NewValueInterface(b)})
	for name, pair := range map[string][2]*typed.TypedValue{"both": {orderedA, orderedB}, "left": {orderedA, plainB}, "right": {plainA, orderedB}} {
		want, err := plainA.Compare(plainB)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pair[0].Compare(pair[1])
		if err != nil || got.String() != want.String() {
			t.Errorf("%s: compare gives\n%v\nwant\n%v; %v", name, got, want, err)
		}
		merged, err := pair[0].Merge(pair[1])
		if err != nil {
			t.Fatal(err)
		}
		wantMerged, err := plainA.Merge(plainB)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(merged.AsValue().Unstructured(), wantMerged.AsValue().Unstructured()) {
			t.Errorf("%s: merge gives another object", name)
		}
		set, err := pair[0].ToFieldSet()
		if err != nil {
			t.Fatal(err)
		}
		if wantSet, _ := plainA.ToFieldSet(); !set.Equals(wantSet) {
			t.Errorf("%s: other fields", name)
		}
		if kept := pair[0].ExtractItems(set); !reflect.DeepEqual(kept.AsValue().Unstructured(), plainA.ExtractItems(set).AsValue().Unstructured()) {
			t.Errorf("%s: other items", name)
		}
		if !value.Equals(pair[0].AsValue(), plainA.AsValue()) || !value.Equals(plainA.AsValue(), pair[0].AsValue()) {
			t.Errorf("%s: not equal to itself", name)
		}
	}
	if wide(a) || !wide(object(0, manyFields)) || !wide([]any{"x", object(0, manyFields)}) {
		t.Error("what is wide")
	}
}
