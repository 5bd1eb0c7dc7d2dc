package test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var planUpgrades = flag.Bool("plan.upgrades", false, "run TestPlanUpgrades, which downloads the sources of two projects (200 MB)")

// upgrades are projects whose modules have the manifests of a release.
var upgrades = []struct {
	name, module string
	versions     []string // oldest first
	namespace    string
	// manifests returns those of a release from the directory of its module.
	manifests func(t *testing.T, dir string) string
}{
	{"Argo CD", "github.com/argoproj/argo-cd/v3", []string{"v3.0.0", "v3.1.0", "v3.2.0"}, "argocd", func(t *testing.T, dir string) string {
		text, err := os.ReadFile(filepath.Join(dir, "manifests", "install.yaml"))
		must(t, err)
		return string(text) + `
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: guestbook, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  project: default
  source: {repoURL: "https://git.example.com/apps", targetRevision: HEAD, path: guestbook}
  destination: {server: "https://kubernetes.default.svc", namespace: guestbook}
`
	}},
	{"cert-manager", "github.com/cert-manager/cert-manager", []string{"v1.19.0", "v1.20.2", "v1.21.2"}, "cert-manager", certManager},
}

// TestPlanUpgrades applies each release of a project to a server that has the one before it. What `kanzen plan` says first is what
// becomes of every object, field by field. The way back is asked as well: it takes away what the newer release has brought.
func TestPlanUpgrades(t *testing.T) {
	if !*planUpgrades {
		t.Skip("needs -plan.upgrades")
	}
	for _, u := range upgrades {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			p := planning{t: t, k: serve(t, t.TempDir()), dir: t.TempDir(), namespace: u.namespace}
			_, _, _ = output(t, binaries.kanzen, "kubectl", "--data-dir", p.k.dir, "create", "namespace", u.namespace)
			var releases [][]map[string]any
			for _, v := range u.versions {
				releases = append(releases, documentsOf(t, u.manifests(t, moduleDir(t, u.module+"@"+v))))
			}
			for n, r := range releases {
				t.Logf("%s: %d objects", u.versions[n], len(r))
				if !p.round(u.versions[n], r) {
					t.Errorf("%s is refused", u.versions[n])
				}
			}
			last := len(releases) - 2
			if !p.round("back to "+u.versions[last], releases[last]) {
				t.Error("the way back is refused")
			}
		})
	}
}

// moduleDir downloads a module and returns its directory.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // below no module that would say otherwise
	out, err := cmd.Output()
	var said struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &said); err != nil || jsonErr != nil || said.Dir == "" {
		t.Fatal(module, err, jsonErr, said.Error)
	}
	return said.Dir
}

// certManager renders cert-manager's chart with its definitions. Chart.yaml is written by a release.
func certManager(t *testing.T, dir string) string {
	t.Helper()
	chart := filepath.Join(t.TempDir(), "cert-manager")
	must(t, os.CopyFS(chart, os.DirFS(filepath.Join(dir, "deploy/charts/cert-manager"))))
	_, version, _ := strings.Cut(filepath.Base(dir), "@")
	must(t, os.WriteFile(filepath.Join(chart, "Chart.yaml"), fmt.Appendf(nil, "apiVersion: v2\nname: cert-manager\nversion: %s\nappVersion: %s\n", version, version), 0o600))
	helm, err := build("HELM_RENDER", filepath.Join(t.TempDir(), "helm"), "helm", ".")
	must(t, err)
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), helm, chart, "cert-manager", "cert-manager")
	// The job that checks an installation is Helm's to delete: its template cannot be changed.
	cmd.Stdin, cmd.Stderr = strings.NewReader("crds: {enabled: true}\nstartupapicheck: {enabled: false}\nprometheus: {servicemonitor: {enabled: false}}\n"), &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err, errs.String())
	}
	return string(out)
}
