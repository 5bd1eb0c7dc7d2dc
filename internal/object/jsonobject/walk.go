package jsonobject

import "math/bits"

// walk passes over a value of a strict document, without a call for each level and without making its strings.
func (l *lexer) walk() bool {
	var lists [(maxDepth + 63) / 64]uint64 // a bit for each level: it is a list
	for depth := 0; ; {
		switch c := l.next(); c {
		case '{', '[':
			if l.at++; l.depth+depth >= maxDepth {
				return false
			}
			if word, bit := depth/64, uint64(1)<<(depth%64); c == '[' {
				lists[word] |= bit
			} else {
				lists[word] &^= bit
			}
			depth++
			if l.next() != c+2 { // ']' is two after '[', and '}' after '{'
				if c == '{' && !l.name() {
					return false
				}
				continue
			}
			l.at++
			depth--
		default:
			if !l.scalar(c) {
				return false
			}
		}
		for { // what follows a value
			if depth == 0 {
				return true
			}
			list := lists[(depth-1)/64]>>((depth-1)%64)&1 != 0
			c := l.next()
			l.at++
			if c == ',' {
				if !list && !l.name() {
					return false
				}
				break
			}
			if c == ']' != list || c != ']' && c != '}' {
				return false
			}
			depth--
		}
	}
}

// scalar passes over a value that is no object or list.
func (l *lexer) scalar(c byte) bool {
	switch c {
	case '"':
		return l.passString()
	case 't':
		return l.word("true")
	case 'f':
		return l.word("false")
	case 'n':
		return l.word("null")
	}
	_, _, ok := l.numeral()
	return ok
}

// name passes over the name of a member and its colon.
func (l *lexer) name() bool {
	if l.next() != '"' || !l.passString() || l.next() != ':' {
		return false
	}
	l.at++
	return true
}

// passString passes over a string, beginning at the opening quote.
func (l *lexer) passString() bool {
	data := l.data
	for at := l.at + 1; at < len(data); at++ {
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
			return true
		case c == '\\':
			n := escape(data[at+1:])
			if n == 0 {
				return false
			}
			at += n
		case c < ' ':
			return false
		}
	}
	return false
}

// escape is how many bytes after a backslash are an escape; 0: it is none.
func escape(s string) int {
	if s == "" {
		return 0
	}
	switch s[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		for n := 1; n < 5; n++ {
			if n >= len(s) || !isHex(s[n]) {
				return 0
			}
		}
		return 5
	}
	return 0
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }
