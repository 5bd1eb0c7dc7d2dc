package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kanzen-io/kanzen/"

// root of the repository, seen from here.
const root = "../.."

// upstreamServer is server code that this project exists to do without; what
// stands on the right is to be used instead.
var upstreamServer = map[string]string{
	"k8s.io/kubernetes":                                 "k8s.io/api types and internal/api/builtin",
	"k8s.io/apiserver/pkg/server":                       "internal/server",
	"k8s.io/apiserver/pkg/registry":                     "internal/engine",
	"k8s.io/apiserver/pkg/endpoints":                    "internal/engine, internal/chain",
	"k8s.io/apiserver/pkg/storage":                      "internal/store",
	"k8s.io/apiserver/pkg/admission":                    "internal/engine/admission",
	"k8s.io/apiserver/pkg/authorization":                "internal/access/authz",
	"k8s.io/apiserver/pkg/authentication/request":       "internal/access/authn",
	"k8s.io/apiserver/pkg/authentication/token":         "internal/access/authn",
	"k8s.io/apiserver/pkg/authentication/authenticator": "internal/access/authn",
	"k8s.io/apiextensions-apiserver/pkg/apiserver":      "internal/api/crd",
	"k8s.io/apiextensions-apiserver/pkg/registry":       "internal/api/crd",
	"k8s.io/apiextensions-apiserver/pkg/controller":     "internal/api/crd",
	"k8s.io/kube-aggregator/pkg/apiserver":              "internal/api/aggregator",
	"k8s.io/kube-aggregator/pkg/controllers":            "internal/api/aggregator",
	"k8s.io/kube-aggregator/pkg/registry":               "internal/api/aggregator",
	"k8s.io/client-go/informers":                        "store.Index",
	"k8s.io/client-go/kubernetes":                       "the in-process transport",
}

// exempt are packages that a library of section 4 of the design, or programs
// that use ours, want to be given, and the folder that may import them.
var exempt = map[string]struct{ folder, reason string }{
	"k8s.io/apiserver/pkg/authorization/authorizer": {"internal/", "what the CEL library for authorization asks"},
	"k8s.io/client-go/kubernetes/scheme":            {"pkg/envtest/", "to which projects add their types; the binary has none of it"},
}

// layers lists the districts of the house from the top down: one may import what stands below it, never what stands above.
var layers = []string{
	"cmd/", "pkg/", "internal/server", "internal/backup", "internal/process", "internal/observe", "internal/controllers", "internal/api", "internal/chain",
	"internal/engine", "internal/access", "internal/wire", "internal/object", "internal/request", "internal/store", "internal/base",
}

// layer is where a path stands; -1: it is none of ours.
func layer(path string) int {
	return slices.IndexFunc(layers, func(l string) bool { return path == l || strings.HasPrefix(path, strings.TrimSuffix(l, "/")+"/") })
}

// eachFile calls f with the path of each Go file of the product, below the
// root, and its imports.
func eachFile(t *testing.T, tests bool, f func(path string, imports []string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && rel != "." || strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || !tests && strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		var imports []string
		for _, i := range file.Imports {
			imports = append(imports, strings.Trim(i.Path.Value, `"`))
		}
		f(filepath.ToSlash(rel), imports)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNoUpstreamServerCode(t *testing.T) {
	eachFile(t, false, func(path string, imports []string) {
		for _, i := range imports {
			for banned, instead := range upstreamServer {
				if e, ok := exempt[i]; ok && strings.HasPrefix(path, e.folder) {
					continue
				}
				if i == banned || strings.HasPrefix(i, banned+"/") {
					t.Errorf("%s imports %s; use %s", path, i, instead)
				}
			}
		}
	})
}

// graph is the imports of our packages: of each, by its path below the module,
// what it imports and the file that does.
type graph map[string]map[string]string

// imports reads the graph of the product; files that skip says so are left out.
func imports(t *testing.T, skip func(path string) bool) graph {
	t.Helper()
	g := graph{}
	eachFile(t, false, func(path string, imports []string) {
		if skip != nil && skip(path) {
			return
		}
		from := pkgOf(path)
		if g[from] == nil {
			g[from] = map[string]string{}
		}
		for _, i := range imports {
			g[from][strings.TrimPrefix(i, module)] = path
		}
	})
	return g
}

func pkgOf(file string) string { return file[:max(strings.LastIndexByte(file, '/'), 0)] }

// each calls f once for everything that a package imports, itself or by way of
// others of ours that through lets it go through, with the files that do.
func (g graph) each(from string, through func(pkg string) bool, f func(to, by string)) {
	seen := map[string]bool{}
	var follow func(pkg, by string)
	follow = func(pkg, by string) {
		for to, file := range g[pkg] {
			if seen[to] {
				continue
			}
			seen[to] = true
			way := strings.TrimPrefix(by+", "+file, ", ")
			f(to, way)
			if g[to] != nil && through(to) {
				follow(to, way)
			}
		}
	}
	follow(from, "")
}

func TestImportsPointDown(t *testing.T) {
	for pkg, all := range imports(t, nil) {
		from := layer(pkg)
		if from < 0 {
			if strings.HasPrefix(pkg, "internal/") && pkg != "internal/lint" {
				t.Errorf("%s is in no district", pkg)
			}
			continue
		}
		for to, by := range all {
			if at := layer(to); at >= 0 && at < from {
				t.Errorf("%s imports %s, which stands above it (%s)", pkg, to, by)
			}
		}
	}
}

// TestFoldersAreOnTheMap has docs/architecture.md list each folder of a district.
func TestFoldersAreOnTheMap(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, places, _ := strings.Cut(string(page), "\n## Where things are\n")
	places, _, _ = strings.Cut(places, "\n## ")
	on := map[string]bool{} // the words before what is said of them
	for line := range strings.Lines(places) {
		names, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		for _, name := range strings.Fields(names) {
			on[name] = true
		}
	}
	for pkg := range imports(t, nil) {
		if parts := strings.Split(pkg, "/"); len(parts) > 2 && parts[0] == "internal" && layer(pkg) >= 0 && !on[parts[2]] {
			t.Errorf("docs/architecture.md does not list %s", strings.Join(parts[:3], "/"))
		}
	}
}

// etcdPeers serves the other members of an etcd cluster, which speak HTTP.
const etcdPeers = "internal/store/etcd/listen.go"

// The store knows logs, not requests: neither it nor what it is made of has
// anything to do with HTTP.
func TestStoreIsBelowHTTP(t *testing.T) {
	g := imports(t, func(path string) bool { return path == etcdPeers })
	all := func(string) bool { return true }
	for pkg := range g {
		if !strings.HasPrefix(pkg+"/", "internal/store/") {
			continue
		}
		g.each(pkg, all, func(to, by string) {
			if to == "net/http" || to == "internal/request" {
				t.Errorf("%s needs %s (%s)", pkg, to, by)
			}
		})
	}
}

// What stands on the store is not to be built with etcd and gRPC, so only
// package etcd uses them, and what knows the files of etcd: packages snapshot and etcdfile, and a file of pebble's.
func TestEtcdIsBehindTheStore(t *testing.T) {
	eachFile(t, false, func(path string, imports []string) {
		if !strings.HasPrefix(path, "internal/") || strings.HasPrefix(path, "internal/store/etcd/") || strings.HasPrefix(path, "internal/backup/snapshot/") ||
			strings.HasPrefix(path, "internal/store/etcdfile/") || path == "internal/store/pebble/etcdfile.go" {
			return
		}
		above := path == "internal/process/databases.go" // opens it
		for _, i := range imports {
			if strings.HasPrefix(i, "go.etcd.io/") || i == module+"internal/store/etcd" && !above {
				t.Errorf("%s imports %s; use store.DB", path, i)
			}
		}
	})
}

func TestPackagesAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	eachFile(t, false, func(path string, _ []string) {
		dir := filepath.Dir(path)
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		documented[dir] = documented[dir] || file.Doc != nil && len(file.Doc.Text()) > 20
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// TestFoldersDependOneWay has no folder of a district depend on another that depends on it, directly or by way of others.
func TestFoldersDependOneWay(t *testing.T) {
	folder := func(path string) string {
		rest, ok := strings.CutPrefix(path, "internal/")
		if !ok {
			return ""
		}
		parts := strings.Split(rest, "/")
		return strings.Join(parts[:min(2, len(parts))], "/")
	}
	needs := map[string]map[string]bool{}
	eachFile(t, false, func(path string, imports []string) {
		from := folder(path)
		for _, i := range imports {
			to := folder(strings.TrimPrefix(i, module))
			if from == "" || to == "" || from == to {
				continue
			}
			if needs[from] == nil {
				needs[from] = map[string]bool{}
			}
			needs[from][to] = true
		}
	})
	for from := range needs {
		seen := map[string]bool{}
		var follow func(name string)
		follow = func(name string) {
			for to := range needs[name] {
				if to == from {
					t.Errorf("internal/%s depends on internal/%s, which depends on it", from, name)
				}
				if !seen[to] {
					seen[to] = true
					follow(to)
				}
			}
		}
		follow(from)
	}
}

// TestSettingsAreRead fails for a setting that nothing outside of its own package
// reads: a flag that is taken and does nothing.
func TestSettingsAreRead(t *testing.T) {
	const settings = root + "/internal/process/config/config.go"
	file, err := parser.ParseFile(token.NewFileSet(), settings, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	unread := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			for _, f := range spec.Type.(*ast.StructType).Fields.List {
				for _, name := range f.Names {
					if name.IsExported() {
						unread[name.Name] = true
					}
				}
			}
		}
		return true
	})
	if len(unread) < 50 {
		t.Fatalf("only %d settings were found", len(unread))
	}
	// Methods of Config that derive something count as reading if they are called.
	eachFile(t, false, func(path string, _ []string) {
		own := strings.HasPrefix(path, "internal/process/config/")
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || own && !(f.Recv != nil && f.Name.IsExported() && f.Name.Name != "Validate" && f.Name.Name != "AddFlags") {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && isSettings(sel.X, own) {
					delete(unread, sel.Sel.Name)
				}
				return true
			})
		}
	})
	for name := range unread {
		t.Errorf("Config.%s is not read", name)
	}
}

// isSettings says that an expression is a Config or a part of one, by the names that
// those have: cfg and root everywhere, c in the package itself.
func isSettings(x ast.Expr, own bool) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "cfg" || x.Name == "root" || own && x.Name == "c"
	case *ast.SelectorExpr:
		return x.Sel.Name == "cfg" || strings.EqualFold(x.Sel.Name, "root") || x.Sel.Name == "settings"
	}
	return false
}
