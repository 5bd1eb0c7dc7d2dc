package lint

import (
	"encoding/json"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

var systems = flag.String("systems", "", "type-check the code of operating systems, such as `darwin windows`")

// TestSystems type-checks the binary, with all its libraries, for other operating systems. That takes a fifth of the time in which
// they are compiled, and finds what a compiler would.
func TestSystems(t *testing.T) {
	if *systems == "" {
		t.Skip("needs -systems (make cross-vet)")
	}
	for system := range strings.FieldsSeq(*systems) {
		t.Run(system, func(t *testing.T) {
			p := program{sizes: types.SizesFor("gc", runtime.GOARCH), fset: token.NewFileSet(), checked: map[string]*types.Package{"unsafe": types.Unsafe}}
			all := dependencies(t, system)
			if err := p.parse(all); err != nil {
				t.Fatal(err)
			}
			own := 0
			for _, pkg := range all { // what a package imports comes before it
				for _, err := range p.check(pkg) {
					t.Error(err)
				}
				if pkg.own() {
					own++
				}
			}
			if own < 100 {
				t.Errorf("only %d packages are ours, of %d", own, len(all))
			}
		})
	}
}

// listed is a package, as `go list` tells of it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ GoVersion string }

	files []*ast.File
}

func (l *listed) own() bool { return strings.HasPrefix(l.ImportPath+"/", module) }

// dependencies are the packages of the binary on a system.
func dependencies(t *testing.T, system string) (all []*listed) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./cmd/kanzen")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if l.ImportPath != "unsafe" {
			all = append(all, &l)
		}
	}
}

// program is the packages that were checked.
type program struct {
	sizes   types.Sizes
	fset    *token.FileSet
	checked map[string]*types.Package
}

// parse reads the files of packages.
func (p *program) parse(all []*listed) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, l := range all {
		g.Go(func() error {
			for _, name := range l.GoFiles {
				f, err := parser.ParseFile(p.fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				l.files = append(l.files, f)
			}
			return nil
		})
	}
	return g.Wait()
}

// check type-checks a package.
func (p *program) check(l *listed) (errs []error) {
	c := types.Config{Sizes: p.sizes, Importer: importer{p, l}, Error: func(err error) { errs = append(errs, err) }}
	if l.Module != nil && l.Module.GoVersion != "" {
		c.GoVersion = "go" + l.Module.GoVersion
	}
	p.checked[l.ImportPath], _ = c.Check(l.ImportPath, p.fset, l.files, nil) // Error has heard of all
	l.files = nil
	return errs
}

// importer finds what a package imports.
type importer struct {
	p *program
	l *listed
}

// Import is part of types.Importer.
func (i importer) Import(path string) (*types.Package, error) {
	if real, ok := i.l.ImportMap[path]; ok {
		path = real
	}
	if pkg := i.p.checked[path]; pkg != nil {
		return pkg, nil
	}
	return nil, errors.New("it is not among the dependencies")
}
