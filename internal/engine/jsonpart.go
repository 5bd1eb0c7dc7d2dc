package engine

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/kanzen-io/kanzen/internal/object/fieldmanager"
)

// This file applies JSON patches to the fields of a Go object that they name. Writing and reading the others as
// JSON costs more than all else that such a patch does.

// patchedPart makes an object by a JSON patch. It reports false if the whole object is to be patched instead: because
// that differs, or because something is wrong, which is then told of the whole object.
func patchedPart(current Object, body []byte, into Object, check bool) bool {
	p := &part{current: current, fields: namedByOperations(body)}
	if p.fields == nil {
		return false
	}
	of := reflect.ValueOf(current).Elem()
	sparse, merged := reflect.New(of.Type()), reflect.New(of.Type())
	p.copy(sparse.Elem(), of)
	doc, err := json.Marshal(sparse.Interface())
	if err != nil {
		return false
	}
	doc, strict, err := jsonPatch(doc, body, check)
	if err != nil || len(strict) > 0 {
		return false
	}
	if strict, err = unmarshalJSON(doc, merged.Interface(), check); err != nil || len(strict) > 0 {
		return false
	}
	to := reflect.ValueOf(into).Elem()
	to.Set(reflect.ValueOf(current.DeepCopyObject()).Elem())
	p.copy(to, merged.Elem())
	fieldmanager.DropNulls(into)
	return true
}

// namedByOperations returns the fields at the beginnings of the paths of a JSON patch, two levels deep; nil if it is about the whole
// object, or no patch.
func namedByOperations(body []byte) []partField {
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil || len(patch) > maxOperations {
		return nil
	}
	fields := []partField{}
	for _, op := range patch {
		path, err := op.Path()
		if err != nil {
			return nil
		}
		if fields = withPath(fields, path); fields == nil {
			return nil
		}
		if kind := op.Kind(); kind == "copy" || kind == "move" {
			if path, err = op.From(); err != nil {
				return nil
			}
			if fields = withPath(fields, path); fields == nil {
				return nil
			}
		}
	}
	return fields
}

// maxNamed bounds the fields that are told apart at each level. No type has as many, and each is looked for among the others.
const maxNamed = 256

// withPath adds the field of a path; nil if it cannot be told.
func withPath(fields []partField, path string) []partField {
	path, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil
	}
	name, rest, deep := strings.Cut(path, "/")
	below, _, _ := strings.Cut(rest, "/")
	if strings.Contains(name, "~") || strings.Contains(below, "~") {
		return nil
	}
	at := slices.IndexFunc(fields, func(f partField) bool { return f.name == name })
	switch {
	case len(fields) == maxNamed || at >= 0 && len(fields[at].below) == maxNamed:
		return nil
	case at < 0 && deep:
		return append(fields, partField{name, []string{below}})
	case at < 0:
		return append(fields, partField{name: name})
	case !deep:
		fields[at].below = nil
	case fields[at].below != nil && !slices.Contains(fields[at].below, below):
		fields[at].below = append(fields[at].below, below)
	}
	return fields
}
