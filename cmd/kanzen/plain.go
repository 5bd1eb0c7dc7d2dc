package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// This file has the only way in which commands print what others have written: names and fields of objects, messages of
// servers, controllers and webhooks. On a terminal, such a text could change what is on the screen, or look like lines of
// ours.

// tell prints a format of ours with values of others. A value keeps to its place in its line: what is no visible character
// is escaped.
func tell(w io.Writer, format string, args ...any) {
	_, _ = io.WriteString(w, told(format, args...)) // a terminal that is gone does not read either
}

// told is the text that tell prints.
func told(format string, args ...any) string {
	shown := make([]any, len(args))
	for n, arg := range args {
		shown[n] = shownArg(arg)
	}
	return fmt.Sprintf(format, shown...)
}

func shownArg(arg any) any {
	switch v := arg.(type) {
	case nil, time.Duration:
		return v
	case string:
		return visible(v)
	case error:
		return visible(plain(v.Error()))
	case fmt.Stringer:
		return visible(v.String())
	}
	switch k := reflect.TypeOf(arg).Kind(); {
	case k >= reflect.Bool && k <= reflect.Complex128:
		return arg
	case k == reflect.String:
		return visible(reflect.ValueOf(arg).String())
	}
	return visible(fmt.Sprint(arg))
}

// maxText bounds a text, in bytes.
const maxText = 16 << 10

// visible escapes what is no visible character: control characters, line breaks of all kinds, and characters that change
// the order or the form of others.
func visible(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	if !strings.ContainsFunc(s, invisible) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		c, size := utf8.DecodeRuneInString(s)
		if c == utf8.RuneError && size == 1 || invisible(c) {
			quoted := strconv.Quote(s[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

func invisible(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError }

// printJSON prints an answer for programs. A terminal may be what reads it, so its texts are escaped, too.
func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	var out strings.Builder
	for _, c := range b.String() {
		switch {
		case c == '\n' || !invisible(c): // the encoder has escaped line breaks within texts
			out.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, c)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
