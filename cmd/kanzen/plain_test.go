package main

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

// nasty is a text that would set a title and a color, begin lines of its own, turn the order of characters around and more.
const nasty = "a\x1b]0;PWNED\x07\x1b[31m\x1b[2J\nError: forged\r\n\tb\v\f\x00\x7f\u0085\u009b1A\u202e\u2066\u2028\u2029\u200b\u200f\ufeff\u00ad\U000e0041 \\ é → 界"

// clean fails the test if a text has anything but visible characters and line breaks.
func clean(t *testing.T, what, text string) {
	t.Helper()
	for n, c := range text {
		if c != '\n' && !unicode.IsPrint(c) {
			t.Errorf("%s: %q is printed: %.300q", what, c, text[max(0, n-50):])
			return
		}
	}
}

func TestTell(t *testing.T) {
	type named string
	for _, arg := range []any{nasty, errors.New(nasty), named(nasty), []string{nasty}, map[string]string{nasty: nasty}, &[]string{nasty}, struct{ A string }{nasty}, stringer{}, []byte(nasty), '\u202e', "\xff\xc0\x1b"} {
		got := told("%v|%s|%q\n", arg, arg, arg)
		clean(t, "an argument", got)
		if strings.Count(got, "\n") != 1 {
			t.Errorf("%T makes lines: %q", arg, got)
		}
	}
	if got := told("%d %5.1f %t %v %x\n", 7, 1.5, true, 3*time.Second, uint64(255)); got != "7   1.5 true 3s ff\n" {
		t.Errorf("%q", got)
	}
	if got := visible("plain é → 界 a\\b"); got != "plain é → 界 a\\b" {
		t.Errorf("%q", got)
	}
	if got := visible(strings.Repeat("é", maxText)); len(got) > maxText+10 || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes", len(got))
	}
	var b bytes.Buffer
	if err := printJSON(&b, map[string]any{nasty: []string{nasty, "\U000e0041"}}); err != nil {
		t.Fatal(err)
	}
	clean(t, "JSON", b.String())
	if strings.Count(b.String(), "\n") != 6 || !strings.Contains(b.String(), `\udb40\udc41`) {
		t.Errorf("%s", b.String())
	}
}

type stringer struct{}

func (stringer) String() string { return nasty }

// TestOnlyTellPrints looks for prints that do not go through tell. The files that are left out print nothing of others.
func TestOnlyTellPrints(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || slices.Contains([]string{"plain.go", "usage.go", "version.go", "root.go", "screen.go", "assets.go"}, file) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "fmt" && (strings.HasPrefix(s.Sel.Name, "Fprint") || strings.HasPrefix(s.Sel.Name, "Print")) {
					t.Errorf("%s prints by fmt.%s: use tell", file, s.Sel.Name)
				}
			}
			return true
		})
	}
}
