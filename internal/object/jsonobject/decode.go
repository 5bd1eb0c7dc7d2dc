package jsonobject

import (
	"strconv"

	kjson "sigs.k8s.io/json"
)

// Unmarshal decodes an object, as UnmarshalCaseSensitivePreserveInts of sigs.k8s.io/json does: numbers without a dot
// that fit are int64, and of duplicate fields the last counts. Its strings share one copy of data; a caller that keeps
// a string for long should clone it.
func Unmarshal(data []byte) (map[string]any, error) {
	if m, _, ok := decode(data); ok {
		return m, nil
	}
	var m map[string]any
	err := kjson.UnmarshalCaseSensitivePreserveInts(data, &m)
	return m, err
}

// UnmarshalStrict does the same, and returns errors for duplicate fields, as UnmarshalStrict of sigs.k8s.io/json does.
func UnmarshalStrict(data []byte) (m map[string]any, strict []error, err error) {
	if m, duplicates, ok := decode(data); ok && !duplicates {
		return m, nil, nil
	}
	strict, err = kjson.UnmarshalStrict(data, &m)
	return m, strict, err
}

// decode decodes an object. ok is false if it is malformed or unusual: sigs.k8s.io/json then decodes it and returns the
// error.
func decode(data []byte) (m map[string]any, duplicates, ok bool) {
	r := reader{lexer: lexer{data: string(data)}}
	if r.next() != '{' {
		return nil, false, false
	}
	m, ok = r.object()
	return m, r.duplicates, ok && r.ended()
}

// reader decodes values.
type reader struct {
	lexer
	// keys and values are those of the objects and lists around the current value, so that each is allocated in its
	// final size.
	keys       []string
	values     []any
	duplicates bool
}

func (r *reader) value() (any, bool) {
	switch r.next() {
	case '{':
		return r.object()
	case '[':
		return r.array()
	case '"':
		return r.string()
	case 't':
		return true, r.word("true")
	case 'f':
		return false, r.word("false")
	case 'n':
		return nil, r.word("null")
	}
	return r.number()
}

func (r *reader) object() (map[string]any, bool) {
	keys, values := len(r.keys), len(r.values)
	if !r.members(func(name string) bool {
		v, ok := r.value()
		r.keys, r.values = append(r.keys, name), append(r.values, v)
		return ok
	}) {
		return nil, false
	}
	m := make(map[string]any, len(r.keys)-keys)
	for n, k := range r.keys[keys:] {
		m[k] = r.values[values+n]
	}
	r.duplicates = r.duplicates || len(m) < len(r.keys)-keys
	r.keys, r.values = r.keys[:keys], r.values[:values]
	return m, true
}

func (r *reader) array() ([]any, bool) {
	from := len(r.values)
	if !r.items(func() bool {
		v, ok := r.value()
		r.values = append(r.values, v)
		return ok
	}) {
		return nil, false
	}
	list := make([]any, len(r.values)-from)
	copy(list, r.values[from:])
	r.values = r.values[:from]
	return list, true
}

// number decodes a number: to int64 if it has no dot and fits.
func (r *reader) number() (any, bool) {
	s, float, ok := r.numeral()
	if !ok {
		return nil, false
	}
	if !float {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i, true
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}
