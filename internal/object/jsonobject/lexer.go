package jsonobject

import (
	"encoding/json"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// lexer reads JSON. All that reads JSON here stands on it. Its methods return false for what is malformed or nested too deeply.
type lexer struct {
	data  string
	at    int
	mode  mode
	depth int
	named int // where the name of the last member begins
}

// mode is how much a lexer looks at.
type mode byte

const (
	strict mode = iota
	exact       // what Marshal would write in another form is refused, but for white space
	raw         // valid JSON is expected: names and texts are as they are written, and values are skipped by their ends
)

// maxDepth bounds the nesting, because what reads JSON recurses.
const maxDepth = 500

// over is a text that shares the bytes of data, for as long as these are not changed.
func over(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// next skips white space and returns the next byte, 0 at the end.
func (l *lexer) next() byte {
	for ; l.at < len(l.data); l.at++ {
		switch c := l.data[l.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// ended says that nothing is left.
func (l *lexer) ended() bool { return l.next() == 0 && l.at == len(l.data) }

func (l *lexer) word(w string) bool {
	if !strings.HasPrefix(l.data[l.at:], w) {
		return false
	}
	l.at += len(w)
	return true
}

// members reads an object, beginning at the opening brace. It calls value after each name; value must read what follows.
func (l *lexer) members(value func(name string) bool) bool {
	if l.depth++; l.depth > maxDepth && l.mode != raw {
		return false
	}
	l.at++
	c := l.next()
	if c == '}' {
		l.at++
	}
	last := ""
	for n := 0; c != '}'; n++ {
		if l.next() != '"' {
			return false
		}
		l.named = l.at
		name, ok := l.string()
		if !ok || l.mode == exact && n > 0 && name <= last || l.next() != ':' {
			return false
		}
		l.at++
		last = name
		if !value(name) {
			return false
		}
		c = l.next()
		l.at++
		if c != ',' && c != '}' {
			return false
		}
	}
	l.depth--
	return true
}

// items reads a list, beginning at the opening bracket. It calls item for each, which must read it.
func (l *lexer) items(item func() bool) bool {
	if l.depth++; l.depth > maxDepth && l.mode != raw {
		return false
	}
	l.at++
	c := l.next()
	if c == ']' {
		l.at++
	}
	for c != ']' {
		if !item() {
			return false
		}
		c = l.next()
		l.at++
		if c != ',' && c != ']' {
			return false
		}
	}
	l.depth--
	return true
}

// skip passes over a value.
func (l *lexer) skip() bool {
	switch l.mode {
	case raw:
		return l.pass()
	case strict:
		return l.walk()
	}
	switch c := l.next(); c {
	case '{':
		return l.members(func(string) bool { return l.skip() })
	case '[':
		return l.items(l.skip)
	case '"':
		_, ok := l.string()
		return ok
	default:
		return l.scalar(c)
	}
}

// pass passes over a value whose form is not looked at.
func (l *lexer) pass() bool {
	l.next()
	begin, depth := l.at, 0
	for l.at < len(l.data) {
		switch l.data[l.at] {
		case '"':
			if _, ok := l.quoted(); !ok {
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
				return l.at > begin
			}
			if depth--; depth == 0 {
				l.at++
				return true
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return l.at > begin
			}
		}
		l.at++
	}
	return l.at > begin && depth == 0
}

// quoted passes over a string, beginning at the opening quote, and returns what is between the quotes.
func (l *lexer) quoted() (string, bool) {
	begin := l.at + 1
	for l.at++; ; l.at++ {
		n := strings.IndexByte(l.data[l.at:], '"')
		if n < 0 {
			return "", false
		}
		l.at += n
		escapes := 0
		for l.data[l.at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			l.at++
			return l.data[begin : l.at-1], true
		}
	}
}

// string reads a string, beginning at the opening quote.
func (l *lexer) string() (string, bool) {
	if l.mode == raw {
		return l.quoted()
	}
	begin, data := l.at, l.data
	escaped, ascii := false, true
	for at := begin + 1; at < len(data); at++ {
		if len(data)-at >= 8 {
			first := special(load(data, at))
			if first == 0 {
				at += 7
				continue
			}
			at += bits.TrailingZeros64(first) / 8
		}
		switch c := data[at]; {
		case c == '"':
			l.at = at + 1
			if s := data[begin+1 : at]; !escaped && (ascii || utf8.ValidString(s)) {
				return s, true
			}
			s, ok := unquote(data[begin:l.at])
			return s, ok && (l.mode != exact || string(AppendString(nil, s)) == data[begin:l.at])
		case c == '\\':
			escaped = true
			at++
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

// numeral skips a number and returns its text, and whether it has a fraction or an exponent.
func (l *lexer) numeral() (text string, float, ok bool) {
	begin := l.at
	if l.at < len(l.data) && l.data[l.at] == '-' {
		l.at++
	}
	first := l.at
	if n := l.digits(); n == 0 || n > 1 && l.data[first] == '0' {
		return "", false, false
	}
	if l.at < len(l.data) && l.data[l.at] == '.' {
		float = true
		l.at++
		if l.digits() == 0 {
			return "", false, false
		}
	}
	if l.at < len(l.data) && l.data[l.at]|0x20 == 'e' {
		float = true
		l.at++
		if l.at < len(l.data) && (l.data[l.at] == '+' || l.data[l.at] == '-') {
			l.at++
		}
		if l.digits() == 0 {
			return "", false, false
		}
	}
	text = l.data[begin:l.at]
	return text, float, l.mode != exact || written(text, float)
}

// written says that Marshal writes a number in the same form. Up to 18 digits have one form only, but for -0.
func written(text string, float bool) bool {
	if !float && len(text) < 19 {
		return text != "-0"
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

// digits skips digits and returns their number.
func (l *lexer) digits() int {
	begin := l.at
	for l.at < len(l.data) && '0' <= l.data[l.at] && l.data[l.at] <= '9' {
		l.at++
	}
	return l.at - begin
}
