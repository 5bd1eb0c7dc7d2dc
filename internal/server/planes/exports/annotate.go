package exports

import (
	"bytes"
	"encoding/json"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

// This file writes the name of the plane into stored objects.

var protobufPrefix = []byte("k8s\x00")

// The fields of protobuf messages: runtime.Unknown's object, an object's metadata, its annotations, a map's key and value.
const (
	rawField         protowire.Number = 2
	metadataField    protowire.Number = 1
	annotationsField protowire.Number = 12
	keyField         protowire.Number = 1
	valueField       protowire.Number = 2
)

var errNoMetadata = errors.New("the stored object has no metadata")

// annotated returns a stored object with the annotation that names its plane, whatever its own of that name is.
func annotated(value []byte, plane string) ([]byte, error) {
	if rest, ok := bytes.CutPrefix(value, protobufPrefix); ok {
		entry := protowire.AppendTag(nil, keyField, protowire.BytesType)
		entry = protowire.AppendString(entry, PlaneAnnotation)
		entry = protowire.AppendTag(entry, valueField, protowire.BytesType)
		entry = protowire.AppendString(entry, plane)
		out, err := rewritten(rest, rawField, func(raw []byte) ([]byte, error) {
			return rewritten(raw, metadataField, func(meta []byte) ([]byte, error) { return withAnnotation(meta, entry) })
		})
		return append(bytes.Clone(protobufPrefix), out...), err
	}
	return annotatedJSON(value, plane)
}

// annotatedJSON is annotated for JSON. The usual object has no annotation of that name, and no member needs to be decoded.
func annotatedJSON(value []byte, plane string) ([]byte, error) {
	meta := jsonobject.Find(value, "metadata")
	if len(meta) < 2 || meta[0] != '{' {
		return nil, errNoMetadata
	}
	if !bytes.Contains(meta, []byte(`"annotations"`)) {
		at := cap(value) - cap(meta) + 1 // Find returns a part of value
		text := append(jsonobject.AppendString([]byte(`"annotations":{"`+PlaneAnnotation+`":`), plane), '}')
		if bytes.TrimSpace(meta[1:])[0] != '}' {
			text = append(text, ',')
		}
		out := make([]byte, 0, len(value)+len(text))
		return append(append(append(out, value[:at]...), text...), value[at:]...), nil
	}
	object, err := jsonobject.Unmarshal(value)
	if err != nil {
		return nil, err
	}
	of, _ := object["metadata"].(map[string]any)
	if of == nil {
		return nil, errNoMetadata
	}
	annotations, _ := of["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[PlaneAnnotation], of["annotations"] = plane, annotations
	out, err := jsonobject.Marshal(object)
	return append(out, '\n'), err
}

// rewritten returns a message in which one field, a message too, is replaced.
func rewritten(message []byte, field protowire.Number, by func([]byte) ([]byte, error)) ([]byte, error) {
	out, found := make([]byte, 0, len(message)+128), false
	for rest := message; len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		if number != field || found {
			out, rest = append(out, rest[:n]...), rest[n:]
			continue
		}
		found = true
		_, tag := tagOf(rest)
		content, m := protowire.ConsumeBytes(rest[tag:])
		if m < 0 {
			return nil, protowire.ParseError(m)
		}
		made, err := by(content)
		if err != nil {
			return nil, err
		}
		out = protowire.AppendBytes(protowire.AppendTag(out, field, protowire.BytesType), made)
		rest = rest[n:]
	}
	if !found {
		return nil, errNoMetadata
	}
	return out, nil
}

func tagOf(b []byte) (protowire.Number, int) {
	number, _, n := protowire.ConsumeTag(b)
	return number, n
}

// withAnnotation returns metadata with an annotation, in the place of annotations, which come in the order of the numbers of fields.
func withAnnotation(meta, entry []byte) ([]byte, error) {
	out, placed := make([]byte, 0, len(meta)+len(entry)+8), false
	place := func() {
		if !placed {
			out = protowire.AppendBytes(protowire.AppendTag(out, annotationsField, protowire.BytesType), entry)
			placed = true
		}
	}
	for rest := meta; len(rest) > 0; {
		number, kind, t := protowire.ConsumeTag(rest)
		if t < 0 {
			return nil, protowire.ParseError(t)
		}
		n := protowire.ConsumeFieldValue(number, kind, rest[t:])
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		if number > annotationsField {
			place()
		}
		if number != annotationsField || !ours(rest[t:t+n]) {
			out = append(out, rest[:t+n]...)
		}
		rest = rest[t+n:]
	}
	place()
	return out, nil
}

// ours reports whether an entry of annotations has the name that is set.
func ours(field []byte) bool {
	entry, n := protowire.ConsumeBytes(field)
	if n < 0 {
		return false
	}
	number, t := tagOf(entry)
	key, _ := protowire.ConsumeBytes(entry[max(t, 0):])
	return number == keyField && string(key) == PlaneAnnotation
}

// apiVersionOf is the apiVersion of a stored custom resource.
func apiVersionOf(value []byte) string {
	var version string
	if json.Unmarshal(jsonobject.Find(value, "apiVersion"), &version) != nil {
		return ""
	}
	return version
}
