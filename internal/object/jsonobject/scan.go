package jsonobject

// Scanner scans a JSON document in the form that Marshal writes, except for white space, without decoding it. Its
// methods return false if the document has another form: if names are unsorted or duplicate, or Marshal would write a
// string or number differently.
type Scanner struct{ reader }

// NewScanner returns a Scanner at the start of a copy of a document.
func NewScanner(data []byte) *Scanner {
	return &Scanner{reader{lexer: lexer{data: string(data), mode: exact}}}
}

// Ahead returns the first byte of the next value, 0 at the end.
func (s *Scanner) Ahead() byte { return s.next() }

// Offset returns the number of scanned bytes.
func (s *Scanner) Offset() int { return s.at }

// Object scans an object. It calls field before each value, with the offset of the name's opening quote; field must
// scan the value.
func (s *Scanner) Object(field func(name string, at int) bool) bool {
	return s.next() == '{' && s.members(func(name string) bool { return field(name, s.named) })
}

// Array scans a list. It calls item before each item, which must scan it.
func (s *Scanner) Array(item func() bool) bool { return s.next() == '[' && s.items(item) }

// Text scans a string and returns it.
func (s *Scanner) Text() (string, bool) {
	if s.next() != '"' {
		return "", false
	}
	return s.string()
}

// Value scans a value and returns it as Unmarshal would.
func (s *Scanner) Value() (any, bool) { return s.value() }

// Skip skips a value.
func (s *Scanner) Skip() bool { return s.skip() }
