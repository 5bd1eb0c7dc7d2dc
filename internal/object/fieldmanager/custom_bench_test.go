package fieldmanager

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// BenchmarkCustomResource is the cost of the managers of a custom resource, by ourselves and by the library.
func BenchmarkCustomResource(b *testing.B) {
	d := definition{"v1": &typed.DeducedParseableType}
	m, err := New(Config{Types: d, Versions: func(context.Context) Versions { return d }, Kind: apischema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"},
		Hub: apischema.GroupVersion{Group: group, Version: "v1"}, Custom: true, Clock: clock.RealClock{}})
	if err != nil {
		b.Fatal(err)
	}
	thing := newThing("v1")
	thing.SetLabels(map[string]string{"app": "web", "tier": "front"})
	spec := map[string]any{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		spec[name] = map[string]any{"x": int64(1), "y": "text", "z": []any{"1", "2"}}
	}
	thing.Object["spec"] = spec
	created := thing.DeepCopy()
	must(m.Update(context.Background(), newThing("v1"), created, "creator"))
	created.SetUID("uid")
	changed := created.DeepCopy()
	changed.Object["spec"].(map[string]any)["a"].(map[string]any)["x"] = int64(2)
	for _, op := range []struct {
		name      string
		live, obj *unstructured.Unstructured
	}{{"Create", newThing("v1"), thing}, {"Update", created, changed}, {"Same", created, created}} {
		for name, update := range map[string]func(live, obj *unstructured.Unstructured){
			"ours":    func(live, obj *unstructured.Unstructured) { must(m.Update(context.Background(), live, obj, "updater")) },
			"library": func(live, obj *unstructured.Unstructured) { must(m.library(d)).UpdateNoErrors(live, obj, "updater") },
		} {
			b.Run(op.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					update(op.live, op.obj.DeepCopy())
				}
			})
		}
	}
}
