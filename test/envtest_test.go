package test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"
)

// TestControllerRuntimeSuites runs controller-runtime's own test suites, as
// they are in its module, on kanzen in the place of kube-apiserver and of etcd:
// envtest starts what KUBEBUILDER_ASSETS has under these names.
func TestControllerRuntimeSuites(t *testing.T) {
	t.Parallel()
	assets := t.TempDir()
	for name, program := range map[string]string{"kube-apiserver": binaries.kanzen, "etcd": binaries.kanzen, "kubectl": binaries.kubectl} {
		must(t, os.Symlink(program, filepath.Join(assets, name)))
	}
	args := []string{"test", "-vet=off", "-count=1", "-timeout=5m"}
	for _, suite := range []string{"client", "envtest", "builder", "controller"} {
		args = append(args, path.Join("sigs.k8s.io/controller-runtime/pkg", suite))
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+assets)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
