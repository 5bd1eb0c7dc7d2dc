package jsonobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
)

var errNoObject = errors.New("not one JSON object")

// Merge applies a JSON merge patch (RFC 7386) to an object. It copies the parts that the patch does not change, so a
// small patch of a large document costs little more than scanning its names. doc must be valid JSON; Merge returns an
// error if doc or patch is not an object.
func Merge(doc, patch []byte) ([]byte, error) {
	changes, err := decodeChanges(patch)
	if err != nil {
		return nil, err
	}
	m := merger{lexer{data: over(doc), mode: raw}, make([]byte, 0, len(doc)+len(patch))}
	if m.next() != '{' || !m.object(changes) {
		return nil, errNoObject
	}
	return m.out, nil
}

// decodeChanges decodes a patch. Numbers keep their text.
func decodeChanges(patch []byte) (changes map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(patch))
	d.UseNumber()
	if err := d.Decode(&changes); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF || changes == nil {
		return nil, errNoObject
	}
	return changes, nil
}

// merger writes a document with a merged patch.
type merger struct {
	lexer
	out []byte
}

// object reads the next object and writes it with its changes.
func (m *merger) object(changes map[string]any) bool {
	m.out = append(m.out, '{')
	empty := len(m.out)
	if !m.members(func(name string) bool { return m.field(name, changes, empty) }) {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if v := changes[name]; v != nil && !m.value(string(AppendString(nil, name)), v, empty) {
			return false
		}
	}
	m.out = append(m.out, '}')
	return true
}

// field skips a field's value and writes the field, unless the patch deletes it. empty is the length of out before the
// first field.
func (m *merger) field(name string, changes map[string]any, empty int) bool {
	quoted, key := m.data[m.named:][:len(name)+2], unescaped(name)
	change, changed := changes[key]
	delete(changes, key)
	within, both := change.(map[string]any)
	both = both && m.next() == '{'
	if changed && !both {
		return m.skip() && (change == nil || m.value(quoted, change, empty))
	}
	m.name(quoted, empty)
	if both {
		return m.object(within)
	}
	begin := m.at
	ok := m.skip()
	m.out = append(m.out, m.data[begin:m.at]...)
	return ok
}

// name writes the name of a field.
func (m *merger) name(quoted string, empty int) {
	if len(m.out) > empty {
		m.out = append(m.out, ',')
	}
	m.out = append(append(m.out, quoted...), ':')
}

// value writes a field that only the patch has, without its nulls.
func (m *merger) value(quoted string, v any, empty int) bool {
	dropNulls(v)
	b, err := json.Marshal(v)
	m.name(quoted, empty)
	m.out = append(m.out, b...)
	return err == nil
}

// dropNulls removes null fields, but not null items, from a value.
func dropNulls(v any) {
	switch t := v.(type) {
	case map[string]any:
		for name, value := range t {
			if value == nil {
				delete(t, name)
			}
			dropNulls(value)
		}
	case []any:
		for _, item := range t {
			dropNulls(item)
		}
	}
}
