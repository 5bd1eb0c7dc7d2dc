package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestPatchOfAPart gives random objects random merge patches and JSON patches. Where the part that a patch names can be patched,
// the outcome is that of patching the whole object.
func TestPatchOfAPart(t *testing.T) {
	if testing.Short() {
		t.Skip("no goroutines meet here, and the race detector makes it fifty times slower")
	}
	r := filler{rand.New(rand.NewSource(1))}
	parts := map[types.PatchType]int{}
	for n := range patches {
		kind := patchedKinds[n%len(patchedKinds)]
		current := kind()
		r.fill(reflect.ValueOf(current).Elem(), 0)
		// What is stored has been read from JSON once.
		whole := kind()
		if _, err := unmarshalJSON(encoded(t, current), whole, false); err != nil {
			continue
		}
		current = whole
		other := current.DeepCopyObject().(Object)
		for range 1 + r.Intn(3) {
			r.change(reflect.ValueOf(other).Elem(), 0)
		}
		patch, body := types.MergePatchType, r.mergePatch(encoded(t, other))
		if r.Intn(2) == 0 {
			patch, body = types.JSONPatchType, r.operations(encoded(t, current), encoded(t, other))
		}
		before, got, want := string(encoded(t, current)), kind(), kind()
		check := r.Intn(2) == 0
		if !patchedByType(patch, current, body, got, check) {
			continue
		}
		parts[patch]++
		apply := mergePatch
		if patch == types.JSONPatchType {
			apply = jsonPatch
		}
		doc, strict, err := apply([]byte(before), body, check)
		if err == nil {
			var more []error
			more, err = unmarshalJSON(doc, want, check)
			strict = append(strict, more...)
		}
		if err != nil || len(strict) > 0 || string(encoded(t, got)) != string(encoded(t, want)) {
			t.Fatalf("patch %s of\n%s\n got %s\nwant %s %v %v", body, before, encoded(t, got), encoded(t, want), strict, err)
		}
		if string(encoded(t, current)) != before {
			t.Fatalf("patch %s has changed the live object", body)
		}
	}
	if parts[types.MergePatchType] < 1000 || parts[types.JSONPatchType] < 500 {
		t.Errorf("%v patches of parts: too few", parts)
	}
	t.Logf("%v of %d", parts, patches)
}

// mergePatch makes a merge patch of a document: parts of it, with nulls and unknown fields.
func (r filler) mergePatch(doc []byte) []byte {
	of := map[string]any{}
	if err := json.Unmarshal(doc, &of); err != nil {
		panic(err)
	}
	r.thin(of)
	b, err := json.Marshal(of)
	if err != nil {
		panic(err)
	}
	return b
}

func (r filler) thin(of map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		switch below, isMap := of[name].(map[string]any); {
		case r.Intn(3) > 0:
			delete(of, name)
		case r.Intn(12) == 0:
			of[name] = nil
		case isMap:
			r.thin(below)
		}
	}
	if r.Intn(40) == 0 {
		of["unknown"] = nil
	}
}

// operations makes a JSON patch of places in one document, with values of another.
func (r filler) operations(doc, other []byte) []byte {
	var from, to map[string]any
	if json.Unmarshal(doc, &from) != nil || json.Unmarshal(other, &to) != nil {
		panic("no objects")
	}
	var ops []map[string]any
	for range 1 + r.Intn(3) {
		path, v := r.place(from)
		if r.Intn(2) == 0 {
			path, v = r.place(to)
		}
		op := map[string]any{"op": []string{"add", "replace", "test"}[r.Intn(3)], "path": path, "value": v}
		switch r.Intn(5) {
		case 0:
			op = map[string]any{"op": "remove", "path": path}
		case 1:
			source, _ := r.place(from)
			op = map[string]any{"op": []string{"copy", "move"}[r.Intn(2)], "from": source, "path": path}
		}
		ops = append(ops, op)
	}
	b, err := json.Marshal(ops)
	if err != nil {
		panic(err)
	}
	return b
}

// place finds a random place in a document, and what is there.
func (r filler) place(v any) (path string, found any) {
	for {
		switch of := v.(type) {
		case map[string]any:
			if len(of) == 0 || path != "" && r.Intn(3) == 0 {
				return path, v
			}
			names := slices.Sorted(maps.Keys(of))
			name := names[r.Intn(len(names))]
			path, v = path+"/"+name, of[name]
		case []any:
			if len(of) == 0 || r.Intn(3) == 0 {
				return path, v
			}
			n := r.Intn(len(of))
			path, v = fmt.Sprintf("%s/%d", path, n), of[n]
		default:
			return path, v
		}
	}
}
