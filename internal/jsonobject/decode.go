package jsonobject

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

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

// maxDepth bounds the nesting that reader accepts, because it recurses.
const maxDepth = 500

// decode decodes an object. ok is false if it is malformed or unusual: sigs.k8s.io/json then decodes it and returns the
// error.
func decode(data []byte) (m map[string]any, duplicates, ok bool) {
	r := reader{data: string(data)}
	if r.next() != '{' {
		return nil, false, false
	}
	v, ok := r.object(0)
	if !ok || r.next() != 0 || r.at < len(r.data) {
		return nil, false, false
	}
	return v, r.duplicates, true
}

// reader decodes JSON values. Its methods return false for malformed or too deeply nested data.
type reader struct {
	data string
	at   int
	// keys and values are those of the objects and lists around the current value, so that each is allocated in its
	// final size.
	keys       []string
	values     []any
	duplicates bool
}

// next skips white space and returns the next byte, 0 at the end.
func (r *reader) next() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (r *reader) value(depth int) (any, bool) {
	switch r.next() {
	case '{':
		return r.object(depth + 1)
	case '[':
		return r.array(depth + 1)
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

func (r *reader) word(w string) bool {
	if !strings.HasPrefix(r.data[r.at:], w) {
		return false
	}
	r.at += len(w)
	return true
}

// object decodes an object, beginning at the opening brace.
func (r *reader) object(depth int) (map[string]any, bool) {
	if depth > maxDepth {
		return nil, false
	}
	r.at++
	if r.next() == '}' {
		r.at++
		return map[string]any{}, true
	}
	keys, values := len(r.keys), len(r.values)
	for {
		if r.next() != '"' {
			return nil, false
		}
		k, ok := r.string()
		if !ok || r.next() != ':' {
			return nil, false
		}
		r.at++
		v, ok := r.value(depth)
		if !ok {
			return nil, false
		}
		r.keys, r.values = append(r.keys, k), append(r.values, v)
		c := r.next()
		r.at++
		if c == '}' {
			break
		}
		if c != ',' {
			return nil, false
		}
	}
	m := make(map[string]any, len(r.keys)-keys)
	for n, k := range r.keys[keys:] {
		m[k] = r.values[values+n]
	}
	r.duplicates = r.duplicates || len(m) < len(r.keys)-keys
	r.keys, r.values = r.keys[:keys], r.values[:values]
	return m, true
}

// array decodes a list, beginning at the opening bracket.
func (r *reader) array(depth int) ([]any, bool) {
	if depth > maxDepth {
		return nil, false
	}
	r.at++
	if r.next() == ']' {
		r.at++
		return []any{}, true
	}
	from := len(r.values)
	for {
		v, ok := r.value(depth)
		if !ok {
			return nil, false
		}
		r.values = append(r.values, v)
		c := r.next()
		r.at++
		if c == ']' {
			break
		}
		if c != ',' {
			return nil, false
		}
	}
	list := make([]any, len(r.values)-from)
	copy(list, r.values[from:])
	r.values = r.values[:from]
	return list, true
}

// string decodes a string, beginning at the opening quote.
func (r *reader) string() (string, bool) {
	begin := r.at
	escaped, ascii := false, true
	for r.at++; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; {
		case c == '"':
			s := r.data[begin+1 : r.at]
			r.at++
			if !escaped && (ascii || utf8.ValidString(s)) {
				return s, true
			}
			return unquote(r.data[begin:r.at])
		case c == '\\':
			escaped = true
			r.at++
		case c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

// unquote decodes a quoted string that has escapes or invalid UTF-8.
func unquote(quoted string) (s string, ok bool) {
	s, ok = unescape(quoted[1 : len(quoted)-1])
	if !ok {
		ok = json.Unmarshal([]byte(quoted), &s) == nil
	}
	return s, ok
}

// unescape resolves escapes of one letter; ok is false if there are others.
func unescape(s string) (string, bool) {
	if !utf8.ValidString(s) {
		return "", false
	}
	const letters, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	out := make([]byte, 0, len(s))
	for {
		before, after, found := strings.Cut(s, `\`)
		out = append(out, before...)
		if !found {
			return string(out), true
		}
		n := strings.IndexByte(letters, after[0])
		if n < 0 {
			return "", false
		}
		out = append(out, meanings[n])
		s = after[1:]
	}
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

// numeral skips a number and returns its text, and whether it has a fraction or an exponent.
func (r *reader) numeral() (text string, float, ok bool) {
	begin := r.at
	if r.at < len(r.data) && r.data[r.at] == '-' {
		r.at++
	}
	first := r.at
	if n := r.digits(); n == 0 || n > 1 && r.data[first] == '0' {
		return "", false, false
	}
	if r.at < len(r.data) && r.data[r.at] == '.' {
		float = true
		r.at++
		if r.digits() == 0 {
			return "", false, false
		}
	}
	if r.at < len(r.data) && r.data[r.at]|0x20 == 'e' {
		float = true
		r.at++
		if r.at < len(r.data) && (r.data[r.at] == '+' || r.data[r.at] == '-') {
			r.at++
		}
		if r.digits() == 0 {
			return "", false, false
		}
	}
	return r.data[begin:r.at], float, true
}

// digits skips digits and returns their number.
func (r *reader) digits() int {
	begin := r.at
	for r.at < len(r.data) && '0' <= r.data[r.at] && r.data[r.at] <= '9' {
		r.at++
	}
	return r.at - begin
}
