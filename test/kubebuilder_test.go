package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubebuilder runs the suites of a project as kubebuilder makes it (test/kubebuilder), with the drop-in for envtest.
// The same files, but for that import, run with controller-runtime's envtest on what
// `kanzen assets` makes and, with -peer, on kube-apiserver.
func TestKubebuilder(t *testing.T) {
	t.Parallel()
	t.Run("kanzen", func(t *testing.T) {
		t.Parallel()
		runSuites(t, "")
	})
	t.Run("the binary, as kubebuilder's own files start it", func(t *testing.T) {
		t.Parallel()
		assets := filepath.Join(t.TempDir(), "assets")
		if _, stderr, code := output(t, binaries.kanzen, "assets", "--dir", assets); code != 0 {
			t.Fatal(stderr)
		}
		runSuites(t, assets, "-overlay="+withUpstream(t))
	})
	t.Run("a server of kanzen test, as an existing cluster", func(t *testing.T) {
		t.Parallel()
		// envtest adds no users to a cluster that it has not started.
		cmd := exec.CommandContext(t.Context(), binaries.kanzen, "test", "--", "go", "test", "-vet=off", "-count=1", "-timeout=5m", "-p=1",
			"-overlay="+withUpstream(t), "./internal/...", "-args", "-ginkgo.skip=users")
		cmd.Dir, cmd.Env = "kubebuilder", append(os.Environ(), "USE_EXISTING_CLUSTER=true")
		passed(t, cmd)
	})
	t.Run("kube-apiserver", func(t *testing.T) {
		t.Parallel()
		if *peerBin == "" {
			t.Skip("needs -peer")
		}
		assets, err := filepath.Abs(*peerBin)
		must(t, err)
		runSuites(t, assets, "-overlay="+withUpstream(t))
	})
}

func runSuites(t *testing.T, assets string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"test", "-vet=off", "-count=1", "-timeout=5m"}, args...), "./internal/...")...)
	cmd.Dir, cmd.Env = "kubebuilder", append(os.Environ(), "KUBEBUILDER_ASSETS="+assets)
	passed(t, cmd)
}

// passed runs a command of go test, both suites of which have to pass.
func passed(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "ok  \t"); n != 2 {
		t.Errorf("%d suites passed, want 2\n%s", n, out)
	}
}

// withUpstream writes an overlay for the go command in which the project imports controller-runtime's envtest, and
// returns its path.
func withUpstream(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	root, err := filepath.Abs("kubebuilder")
	must(t, err)
	must(t, filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed := strings.ReplaceAll(string(text), "github.com/kanzen-io/kanzen/pkg/envtest", "sigs.k8s.io/controller-runtime/pkg/envtest")
		if changed == string(text) {
			return nil
		}
		replace[path] = filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(path, root), string(filepath.Separator), "_"))
		return os.WriteFile(replace[path], []byte(changed), 0o600)
	}))
	if len(replace) != 3 {
		t.Fatalf("the import is in %d files, want 3", len(replace))
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	file := filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(file, text, 0o600))
	return file
}
