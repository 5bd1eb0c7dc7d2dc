package schema

import (
	"context"
	"sync"
	"testing"
)

// TestConcurrentUse checks that one schema, and its shared cache, can be used concurrently.
func TestConcurrentUse(t *testing.T) {
	const text = `{type: object, properties: {
		s: {type: string, pattern: "^a", x-kubernetes-validations: [{rule: self != 'ab', messageExpression: "'not ' + self"}]},
		o: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-validations: [{rule: self.metadata.name == 'a'}]},
		m: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, v: {type: string, default: x}}}}}}`
	cache := NewCache(Timing{})
	shared, err := Compile(parse(t, text), Options{Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	obj := `{s: ab, o: {apiVersion: v1, kind: A, metadata: {name: b}}, m: [{k: a}, {k: b}]}`
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			own, err := Compile(parse(t, text), Options{Cache: cache})
			if err != nil {
				t.Error(err)
				return
			}
			for _, s := range []*Schema{shared, own} {
				obj, old := objectOf(t, obj), objectOf(t, obj)
				if _, err := s.Coerce(obj, CoerceOptions{}); err != nil {
					t.Error(err)
				}
				s.Default(obj)
				if v := s.ValidateUpdate(context.Background(), obj, old); len(v.Errors)+len(v.Warnings) != 2 {
					t.Error(v.Errors, v.Warnings)
				}
				if _, err := s.Type().FromUnstructured(obj); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
