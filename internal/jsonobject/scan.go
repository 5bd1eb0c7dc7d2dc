package jsonobject

import "strconv"

// Scanner goes through a JSON document that is as Marshal writes it, but for
// white space, without making anything of it. Its methods report false where
// the document is not like that: where names are not in order or occur
// twice, or a text or number would be written in another way.
type Scanner struct{ reader }

// NewScanner returns a Scanner in front of a document, of which it makes a copy.
func NewScanner(data []byte) *Scanner { return &Scanner{reader{data: string(data)}} }

// Ahead returns the byte that the value ahead begins with, 0 at the end.
func (s *Scanner) Ahead() byte { return s.next() }

// Offset is how many bytes lie behind.
func (s *Scanner) Offset() int { return s.at }

// Object goes through an object. field is called in front of each value, with
// the offset of the name's opening quote, and has to go past it.
func (s *Scanner) Object(field func(name string, at int) bool) bool {
	if s.next() != '{' {
		return false
	}
	s.at++
	if s.next() == '}' {
		s.at++
		return true
	}
	last := ""
	for n := 0; ; n++ {
		s.next()
		at := s.at
		name, ok := s.Text()
		if !ok || n > 0 && name <= last || s.next() != ':' {
			return false
		}
		s.at++
		last = name
		if !field(name, at) {
			return false
		}
		c := s.next()
		s.at++
		if c == '}' {
			return true
		}
		if c != ',' {
			return false
		}
	}
}

// Array goes through a list. item is called in front of each item and has to
// go past it.
func (s *Scanner) Array(item func() bool) bool {
	if s.next() != '[' {
		return false
	}
	s.at++
	if s.next() == ']' {
		s.at++
		return true
	}
	for {
		if !item() {
			return false
		}
		c := s.next()
		s.at++
		if c == ']' {
			return true
		}
		if c != ',' {
			return false
		}
	}
}

// Text goes past a string and returns it.
func (s *Scanner) Text() (string, bool) {
	if s.next() != '"' {
		return "", false
	}
	begin := s.at
	text, ok := s.string()
	if ok && s.at-begin != len(text)+2 { // it has escapes
		ok = string(appendString(nil, text)) == s.data[begin:s.at]
	}
	return text, ok
}

// Value goes past a value and returns what Unmarshal makes of it.
func (s *Scanner) Value() (any, bool) {
	begin := s.at
	if !s.Skip() {
		return nil, false
	}
	s.at = begin
	return s.value(0)
}

// Skip goes past a value.
func (s *Scanner) Skip() bool { return s.skip(0) }

func (s *Scanner) skip(depth int) bool {
	if depth > maxDepth {
		return false
	}
	switch s.next() {
	case '{':
		return s.Object(func(string, int) bool { return s.skip(depth + 1) })
	case '[':
		return s.Array(func() bool { return s.skip(depth + 1) })
	case '"':
		_, ok := s.Text()
		return ok
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.scanNumber()
}

// scanNumber goes past a number. One of up to 18 digits is written in one way
// only, unless it is -0.
func (s *Scanner) scanNumber() bool {
	text, float, ok := s.numeral()
	if !ok || !float && len(text) < 19 {
		return ok && text != "-0"
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.FormatInt(i, 10) == text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false
	}
	b, err := appendFloat(nil, f)
	return err == nil && string(b) == text
}
