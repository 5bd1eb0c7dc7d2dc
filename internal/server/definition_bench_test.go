package server

import (
	"encoding/json"
	"fmt"
	"testing"
)

// definition is the body of a CustomResourceDefinition of 60 documented fields, in a group of its own.
func definition(t testing.TB, n int) []byte {
	type object = map[string]any
	fields := object{}
	for i := range 60 {
		text := fmt.Sprintf("The field number %d of the specification, which says how the thing behaves when the moon is full and when it is not; "+
			"see the documentation of the project for all that may be put here.", i)
		fields[fmt.Sprintf("field%d", i)] = []object{
			{"type": "string", "maxLength": 63, "description": text},
			{"type": "integer", "minimum": 0, "description": text},
			{"type": "boolean", "default": true, "description": text},
			{"type": "array", "items": object{"type": "string"}, "description": text},
			{"type": "object", "description": text, "properties": object{"name": object{"type": "string", "description": text}, "key": object{"type": "string"}}},
		}[i%5]
	}
	group := fmt.Sprintf("g%d.example.com", n)
	body, err := json.Marshal(object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "things." + group},
		"spec": object{"group": group, "scope": "Namespaced", "names": object{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
			"versions": []object{{"name": "v1", "served": true, "storage": true, "subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": object{"type": "object", "properties": object{"spec": object{"type": "object", "properties": fields}}}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// BenchmarkDefine creates definitions; what follows from each is done meanwhile.
func BenchmarkDefine(b *testing.B) {
	s := start(b)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		do(b, s, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", "", definition(b, n), 201)
	}
}
