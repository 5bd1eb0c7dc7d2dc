package recorder

import (
	"strings"
	"unicode"
	"unicode/utf8"
	"unique"
)

// Bounds of texts, in bytes.
const (
	maxID    = 64
	maxUser  = 256
	maxAgent = 128
	maxName  = 253
	maxPath  = 160
	maxValue = 64
	// maxMessage is enough for what most refusals say.
	maxMessage = 512
)

// text bounds a text from a client, and makes it safe to print: valid, and without control characters, which would reach
// somebody's terminal. It does not keep what the text is a part of.
func text(s string, limit int) string {
	if clean(s, limit) {
		return strings.Clone(s)
	}
	return scrub(s, limit)
}

// shared is text for texts that many requests have: equal ones are kept once.
func shared(s string, limit int) string {
	if s == "" {
		return ""
	}
	if !clean(s, limit) {
		s = scrub(s, limit)
	}
	return unique.Make(s).Value()
}

// scrubbed are the characters that scrub puts in the place of others.
const scrubbed = "?…"

func clean(s string, limit int) bool {
	if len(s) > limit {
		return false
	}
	for n := range len(s) {
		if s[n] < ' ' || s[n] >= 0x7f {
			return false
		}
	}
	return true
}

func scrub(s string, limit int) string {
	var b strings.Builder
	for _, c := range s[:min(len(s), 2*limit)] {
		if c == utf8.RuneError || unicode.IsControl(c) || !unicode.IsPrint(c) {
			c = '?'
		}
		if b.Len()+utf8.RuneLen(c) > limit-len("…") {
			b.WriteString("…")
			break
		}
		b.WriteRune(c)
	}
	return b.String()
}
