package crd

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// indexAnnotation on a definition names further fields of its objects, separated by commas, by which they can be selected and sorted, and
// of which there is an index: "spec.tenant,spec.region". It is for the extension selectors.
const indexAnnotation = "index.kanzen.io/fields"

// maxIndexed is how many fields a definition can have indexed, as many as it can have selectable fields.
const maxIndexed = 8

var indexable = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*$`)

// indexedFields reads the annotation. What names no field outside of metadata is left out.
func indexedFields(value string) (paths [][]string) {
	for field := range strings.SplitSeq(value, ",") {
		path := strings.Split(strings.TrimSpace(field), ".")
		if !indexable.MatchString(strings.Join(path, ".")) || slices.Contains([]string{"metadata", "apiVersion", "kind"}, path[0]) ||
			len(paths) == maxIndexed {
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

// addIndexed makes fields of a resource selectable, and has them indexed.
func addIndexed(r *engine.Resource, paths [][]string) {
	if len(paths) == 0 {
		return
	}
	selectable := r.Fields
	for _, path := range paths {
		r.Indexed = append(r.Indexed, strings.Join(path, "."))
	}
	r.Fields = func(obj engine.Object) fields.Set {
		set := selectable(obj)
		for n, path := range paths {
			set[r.Indexed[n]] = scalarAt(content(obj), path)
		}
		return set
	}
}

// scalarAt is the text of a string, number or boolean; empty: there is none.
func scalarAt(at any, path []string) string {
	for _, name := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return ""
		}
		at = m[name]
	}
	switch at.(type) {
	case string, bool, int64, float64:
		return fmt.Sprint(at)
	}
	return ""
}
