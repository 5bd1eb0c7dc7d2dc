package jsonobject

import (
	"reflect"
	"strings"
	"sync"
)

// Types decodes JSON into Go API types. How a type is decoded is found out once; the library asks again for every value.
// The zero value is ready to use, by many goroutines.
type Types struct {
	known sync.Map // of reflect.Type to *plan, complete
}

// Decode decodes a document into what the pointer into points to, which must be zero, as UnmarshalStrict of sigs.k8s.io/json
// does where it finds nothing to object to. False: the document has an error, an unknown or a duplicate field, or something
// that is rare; into is zero then, and the library shall decode. The strings share one copy of data, unless the value is to be kept:
// who keeps one string for long would keep all of it.
func (t *Types) Decode(data []byte, into any, kept bool) bool {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || !v.Elem().IsZero() {
		return false
	}
	v = v.Elem()
	p := t.of(v.Type())
	if p.decode == nil {
		return false
	}
	r := typedReader{reader: reader{data: string(data)}, raw: data, apart: kept}
	if r.next() == '{' && p.decode(&r, v) && r.next() == 0 && r.at == len(r.data) {
		return true
	}
	v.SetZero()
	return false
}

func (t *Types) of(typ reflect.Type) *plan {
	if p, ok := t.known.Load(typ); ok {
		return p.(*plan)
	}
	c := compiler{made: map[reflect.Type]*plan{}}
	p := c.compile(typ)
	if c.foreign {
		p = &plan{}
	}
	t.known.Store(typ, p)
	return p
}

// Valid says that data is one JSON value. It may say no of a value that is nested deeply.
func Valid(data []byte) bool {
	r := typedReader{reader: reader{data: string(data)}}
	return r.skipValue() && r.next() == 0 && r.at == len(r.data)
}

// typedReader reads a document for plans.
type typedReader struct {
	reader
	raw   []byte // the document again, for UnmarshalJSON
	depth int
	apart bool // each string has bytes of its own
	patch Patch
}

// text reads a string that becomes part of the value.
func (r *typedReader) text() (string, bool) {
	s, ok := r.string()
	if r.apart {
		s = strings.Clone(s)
	}
	return s, ok
}

// enter counts a level of nesting; the plans recurse.
func (r *typedReader) enter() bool {
	r.depth++
	return r.depth <= maxDepth
}

// null skips a null. One in a patch is left to who merges.
func (r *typedReader) null() bool { return r.patch == noPatch && r.next() == 'n' && r.word("null") }

// skip passes over a value and returns its text; false: it is malformed.
func (r *typedReader) skip() ([]byte, bool) {
	r.next()
	begin := r.at
	ok := r.skipValue()
	return r.raw[begin:r.at], ok
}

func (r *typedReader) skipValue() bool {
	switch r.next() {
	case '{':
		return r.members(func(string) bool { return r.skipValue() })
	case '[':
		return r.items(r.skipValue)
	case '"':
		_, ok := r.string()
		return ok
	case 't':
		return r.word("true")
	case 'f':
		return r.word("false")
	case 'n':
		return r.word("null")
	}
	_, _, ok := r.numeral()
	return ok
}

// members reads an object, beginning at the opening brace. It calls value after each name; value must read what follows.
func (r *typedReader) members(value func(name string) bool) bool {
	if !r.enter() {
		return false
	}
	defer func() { r.depth-- }()
	r.at++
	if r.next() == '}' {
		r.at++
		return true
	}
	for {
		if r.next() != '"' {
			return false
		}
		name, ok := r.string()
		if !ok || r.next() != ':' {
			return false
		}
		r.at++
		if !value(name) {
			return false
		}
		c := r.next()
		r.at++
		if c != ',' {
			return c == '}'
		}
	}
}

// items reads a list, beginning at the opening bracket. It calls item for each, which must read it.
func (r *typedReader) items(item func() bool) bool {
	if !r.enter() {
		return false
	}
	defer func() { r.depth-- }()
	r.at++
	if r.next() == ']' {
		r.at++
		return true
	}
	for {
		if !item() {
			return false
		}
		c := r.next()
		r.at++
		if c != ',' {
			return c == ']'
		}
	}
}
