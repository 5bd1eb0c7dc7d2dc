package jsonobject

import (
	"bytes"
	"strings"
)

// Cut returns a JSON document in which null replaces each value at one of the paths. Decoding the result takes a
// fraction of the time. A path consists of names with dots between them; "*" matches each item of a list:
// "spec.versions.*.schema". Names with escapes do not match. Data that is not JSON is returned unchanged.
func Cut(data []byte, paths ...string) []byte {
	c := cutter{skipper: skipper{data: data}}
	for _, p := range paths {
		c.paths = append(c.paths, strings.Split(p, "."))
	}
	if !c.value(c.paths) {
		return data
	}
	return append(c.out, data[c.copied:]...)
}

// cutter copies a document without the parts that are cut.
type cutter struct {
	skipper
	paths  [][]string
	out    []byte
	copied int // the length of data that has been copied or cut
}

// value skips a value, parts of which match the paths.
func (c *cutter) value(paths [][]string) bool {
	c.space()
	for _, p := range paths {
		if len(p) == 0 {
			c.out = append(append(c.out, c.data[c.copied:c.at]...), "null"...)
			ok := c.skip()
			c.copied = c.at
			return ok
		}
	}
	if len(paths) == 0 {
		return c.skip()
	}
	return c.members(func(name []byte) bool {
		var within [][]string
		for _, p := range paths {
			if p[0] == "*" && name == nil || p[0] == string(name) && p[0] != "*" {
				within = append(within, p[1:])
			}
		}
		return c.value(within)
	})
}

// Find returns the bytes of the value at a path of names, or nil. It does not read the rest, so data must be valid
// JSON, such as a stored document.
func Find(data []byte, path ...string) []byte {
	s := skipper{data: data}
	for _, name := range path {
		found := false
		s.members(func(n []byte) bool {
			if found = n != nil && string(n) == name; found {
				return false
			}
			return s.skip()
		})
		if !found {
			return nil
		}
	}
	s.space()
	begin := s.at
	if !s.skip() {
		return nil
	}
	return data[begin:s.at]
}

// skipper skips JSON values without decoding them. Its methods return false if data ends too early or a list of members
// is malformed; they do not find all errors.
type skipper struct {
	data []byte
	at   int
}

func (s *skipper) space() {
	for s.at < len(s.data) && (s.data[s.at] == ' ' || s.data[s.at] == '\n' || s.data[s.at] == '\t' || s.data[s.at] == '\r') {
		s.at++
	}
}

// next skips white space and one byte, which it returns; 0 at the end.
func (s *skipper) next() byte {
	s.space()
	if s.at == len(s.data) {
		return 0
	}
	s.at++
	return s.data[s.at-1]
}

// members iterates over the fields of an object, or the items of a list, which have no name. It calls each before every
// value; each must skip the value, and returns false to stop. Other values have no members.
func (s *skipper) members(each func(name []byte) bool) bool {
	s.space()
	if s.at == len(s.data) || s.data[s.at] != '{' && s.data[s.at] != '[' {
		return s.skip()
	}
	object := s.next() == '{'
	s.space()
	if s.at < len(s.data) && (s.data[s.at] == '}' || s.data[s.at] == ']') {
		s.at++
		return true
	}
	for {
		var name []byte
		if object {
			s.space()
			begin := s.at + 1
			if s.at == len(s.data) || s.data[s.at] != '"' || !s.string() {
				return false
			}
			name = s.data[begin : s.at-1]
			if s.next() != ':' {
				return false
			}
		}
		if !each(name) {
			return false
		}
		switch s.next() {
		case '}', ']':
			return true
		case ',':
		default:
			return false
		}
	}
}

// string skips the rest of a string after the opening quote.
func (s *skipper) string() bool {
	for s.at++; ; s.at++ {
		n := bytes.IndexByte(s.data[s.at:], '"')
		if n < 0 {
			return false
		}
		s.at += n
		escapes := 0
		for s.data[s.at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			s.at++
			return true
		}
	}
}

// skip skips a value.
func (s *skipper) skip() bool {
	s.space()
	begin, depth := s.at, 0
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case '"':
			if !s.string() {
				return false
			}
			if depth == 0 {
				return true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return s.at > begin
			}
			if depth--; depth == 0 {
				s.at++
				return true
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return s.at > begin
			}
		}
		s.at++
	}
	return s.at > begin && depth == 0
}

// Members calls each with the fields of an object, or the items of a list, which have no name, and the bytes of the
// value. Names are raw, without the quotes. It returns false if data is neither; data must be valid JSON.
func Members(data []byte, each func(name, value []byte)) bool {
	s := skipper{data: data}
	s.space()
	if s.at == len(data) || data[s.at] != '{' && data[s.at] != '[' {
		return false
	}
	return s.members(func(name []byte) bool {
		s.space()
		begin := s.at
		ok := s.skip()
		each(name, data[begin:s.at])
		return ok
	})
}
