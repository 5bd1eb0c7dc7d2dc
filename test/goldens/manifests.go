package goldens

import "slices"

// Manifest is an object that the recorded answers are about, and the collection in which it is created.
type Manifest struct {
	Base
	Object map[string]any
}

// Manifests returns all of them, by their names: for each kind one that is as small as can be, and some that have all fields.
func Manifests() []Manifest {
	index, ids := loadIndex()
	var out []Manifest
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if b := index[id]; b.Collection != "" {
			out = append(out, Manifest{b, loadBase(b)})
		}
	}
	return out
}

// Fixtures returns the objects that the manifests need: classes, definitions, namespaces and what is in them.
func Fixtures() []map[string]any {
	entries, err := baseFS.ReadDir("base/fixtures")
	if err != nil {
		panic(err)
	}
	var out []map[string]any
	for _, e := range entries {
		out = append(out, loadYAML("base/fixtures/"+e.Name()))
	}
	return out
}
