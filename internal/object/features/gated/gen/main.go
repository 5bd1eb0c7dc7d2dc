// Command gen prints the fields of k8s.io/api that belong to feature gates, by the markers at their declarations: the
// package's path below the module, the type, the field, and the gates, all of which must be on.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const marker = "+featureGate="

// misnamed are names in markers that no gate has, and the gates that kube-apiserver asks instead.
var misnamed = strings.NewReplacer("PodCertificateProjection", "PodCertificateRequest")

// unmarked are fields without a marker that kube-apiserver drops with a gate.
var unmarked = []string{
	"apps/v1 DeploymentStatus TerminatingReplicas DeploymentReplicaSetTerminatingReplicas",
	"apps/v1 ReplicaSetStatus TerminatingReplicas DeploymentReplicaSetTerminatingReplicas",
	"core/v1 TopologySpreadConstraint MatchLabelKeys MatchLabelKeysInPodTopologySpread",
}

func main() {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		log.Fatal(err)
	}
	root := strings.TrimSpace(string(dir))
	lines := slices.Clone(unmarked)
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(filepath.Base(path), "types") || filepath.Ext(path) != ".go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		in, err := filepath.Rel(root, filepath.Dir(path))
		lines = append(lines, fields(filepath.ToSlash(in), file)...)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	slices.Sort(lines)
	fmt.Fprintln(os.Stdout, strings.Join(lines, "\n"))
}

// fields returns a line for each field of a file that has the marker.
func fields(in string, file *ast.File) (lines []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		t, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		s, ok := t.Type.(*ast.StructType)
		if !ok {
			return false
		}
		for _, f := range s.Fields.List {
			if gates := gates(f.Doc); gates != "" && len(f.Names) == 1 {
				lines = append(lines, fmt.Sprintf("%s %s %s %s", in, t.Name.Name, f.Names[0].Name, gates))
			}
		}
		return false
	})
	return lines
}

func gates(doc *ast.CommentGroup) string {
	if doc == nil {
		return ""
	}
	for _, c := range doc.List {
		if _, gates, ok := strings.Cut(c.Text, marker); ok {
			return misnamed.Replace(strings.ReplaceAll(gates, " ", ""))
		}
	}
	return ""
}
