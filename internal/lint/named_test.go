package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// named are the files with writes that are meant for whatever object has a name. All other writers inside of the server
// name the object that they have looked at.
var named = map[string]string{
	"internal/controllers/election.go":                                "the lease says itself whose it is",
	"internal/server/controlplane/identity.go":                        "the lease of the server's own name",
	"internal/server/controlplane/storageversions.go":                 "this server's part is added to whatever is there",
	"internal/server/controlplane/authinfo.go":                        "this server's values are added to whatever is there",
	"internal/api/peers/leases.go":                                    "the lease belongs to the name of the server",
	"internal/api/crd/controller.go":                                  "a custom resource that cannot be read has no UID",
	"internal/controllers/kubernetesservice/leases.go":                "the lease belongs to the address",
	"internal/controllers/kubernetesservice/objects.go":               "the objects belong to the name",
	"internal/engine/admission/plugin/resourcequota/resourcequota.go": "the charges are decided again on whatever quota is there",
}

func TestWritesNameWhatWasSeen(t *testing.T) {
	found := map[string]bool{}
	eachFile(t, false, func(path string, _ []string) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Named" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "request" {
					found[path] = true
				}
			}
			return true
		})
	})
	for path := range found {
		if named[path] == "" {
			t.Errorf("%s writes to whatever object has a name (request.Named); use request.Same or request.Unchanged, or say why here", path)
		}
	}
	for path := range named {
		if !found[path] {
			t.Errorf("%s has no such write any more", path)
		}
	}
}
