package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// featureTests matches a package and some of its tests, as docs/features.md names them.
var featureTests = regexp.MustCompile("`((?:bench|cmd|internal|pkg|test)(?:/[a-z0-9]+)*)` ((?:Test|Fuzz)\\w+(?:, (?:Test|Fuzz)\\w+)*)")

// TestFeaturesAreTested has each test that docs/features.md names be there, and each feature that is on by default have one, unless
// the page says that it is not there.
func TestFeaturesAreTested(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/features.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, features := map[string]map[string]bool{}, 0
	for line := range strings.Lines(string(page)) {
		for _, m := range featureTests.FindAllStringSubmatch(line, -1) {
			if tests[m[1]] == nil {
				tests[m[1]] = testsOf(t, m[1])
			}
			for _, name := range strings.Split(m[2], ", ") {
				if !tests[m[1]][name] {
					t.Errorf("docs/features.md: %s has no %s", m[1], name)
				}
			}
		}
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == "feature" || cells[0] == "plugin" || cells[0] == "client" {
			continue
		}
		if name := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`).FindString(featureTests.ReplaceAllString(line, "")); name != "" {
			t.Errorf("docs/features.md: %s is named without its package, or in another form: %s", name, line)
		}
		features++
		shown := cells[len(cells)-1]
		if !featureTests.MatchString(shown) && !regexp.MustCompile(`\bby choice\b|\bmissing\b|\bas kube-apiserver\b`).MatchString(shown) {
			t.Errorf("docs/features.md: nothing shows %s", cells[0])
		}
	}
	if features < 200 {
		t.Errorf("docs/features.md has only %d features", features)
	}
}

// testsOf are the names of the tests of a package.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}
