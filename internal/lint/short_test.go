package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestShortIsAskedByTests looks for testing.Short() outside of tests. make unraced finds by it which tests -short leaves out or makes
// shorter, and runs them again; those that call a helper which asks would never be run whole.
func TestShortIsAskedByTests(t *testing.T) {
	asking := 0
	eachFile(t, true, func(file string, _ []string) {
		if !strings.HasSuffix(file, "_test.go") {
			return
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, _ := d.(*ast.FuncDecl)
			test := f != nil && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz"))
			ast.Inspect(d, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok || s.Sel.Name != "Short" {
					return true
				}
				if of, ok := s.X.(*ast.Ident); ok && of.Name == "testing" {
					asking++
					if !test {
						t.Errorf("%s: testing.Short() is not in a test; pass what follows from it to the helper", fset.Position(s.Pos()))
					}
				}
				return true
			})
		}
	})
	if asking == 0 {
		t.Error("no test asks")
	}
}
