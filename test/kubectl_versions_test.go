package test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestKubectlVersions runs the script of what a user does in a day, in
// testdata/kubectl-versions, with kubectl of the three minor versions before.
// Each is a module of its own under kubectl/, since a module holds one version.
func TestKubectlVersions(t *testing.T) {
	for _, version := range []string{"v1.34", "v1.35", "v1.36"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			program := olderKubectl(t, version)
			testscript.Run(t, kubectlScripts("testdata/kubectl-versions", filepath.Dir(program), func(env *testscript.Env) {
				env.Setenv("VERSION", version)
			}))
		})
	}
}

// olderKubectl builds kubectl of a version.
func olderKubectl(t *testing.T, version string) string {
	t.Helper()
	env := "KUBECTL_" + strings.ReplaceAll(strings.ToUpper(version), ".", "_")
	return buildOthers(t, env, "kubectl/"+version, "-trimpath", "-ldflags", "-X k8s.io/component-base/version.gitVersion="+version+".0")
}
