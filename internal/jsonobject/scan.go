package jsonobject

import "strconv"

// Scanner scans a JSON document in the form that Marshal writes, except for white space, without decoding it. Its
// methods return false if the document has another form: if names are unsorted or duplicate, or Marshal would write a
// string or number differently.
type Scanner struct{ reader }

// NewScanner returns a Scanner at the start of a copy of a document.
func NewScanner(data []byte) *Scanner { return &Scanner{reader{data: string(data)}} }

// Ahead returns the first byte of the next value, 0 at the end.
func (s *Scanner) Ahead() byte { return s.next() }

// Offset returns the number of scanned bytes.
func (s *Scanner) Offset() int { return s.at }

// Object scans an object. It calls field before each value, with the offset of the name's opening quote; field must
// scan the value.
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

// Array scans a list. It calls item before each item, which must scan it.
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

// Text scans a string and returns it.
func (s *Scanner) Text() (string, bool) {
	if s.next() != '"' {
		return "", false
	}
	begin := s.at
	text, ok := s.string()
	if ok && s.at-begin != len(text)+2 { // it has escapes
		ok = string(AppendString(nil, text)) == s.data[begin:s.at]
	}
	return text, ok
}

// Value scans a value and returns it as Unmarshal would.
func (s *Scanner) Value() (any, bool) {
	begin := s.at
	if !s.Skip() {
		return nil, false
	}
	s.at = begin
	return s.value(0)
}

// Skip skips a value.
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

// scanNumber scans a number. A number of up to 18 digits has only one form, except for -0.
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
