package lint

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// modules are compiled by `make test` along with the root. testkit, testcontainers and multicluster are not among them: their
// requirements are low on purpose, so that they move nothing in the modules that use them.
var modules = []string{"test", "bench", "test/helm", "test/kubebuilder", "examples/operator-test"}

// TestModulesShareVersions has all modules use the same version of what they share: another version of a library is compiled
// once more, with all that stands on it. A low one may mean hundreds of packages, and minutes.
func TestModulesShareVersions(t *testing.T) {
	own := requirements(t, ".")
	if len(own) < 50 {
		t.Fatalf("only %d requirements were found", len(own))
	}
	for _, m := range modules {
		for path, version := range requirements(t, m) {
			if have := own[path]; have != "" && have != version {
				t.Errorf("%s/go.mod has %s %s, go.mod has %s", m, path, version, have)
			}
		}
	}
}

// TestTestkitAsksForLittle keeps the module that others add to their go.mod as small as it is.
func TestTestkitAsksForLittle(t *testing.T) {
	for path := range requirements(t, "testkit") {
		if path != "sigs.k8s.io/yaml" {
			t.Errorf("testkit/go.mod requires %s", path)
		}
	}
}

// TestTestcontainersMovesNothing has the module for testcontainers-go require no more than that does, and nothing of this module.
func TestTestcontainersMovesNothing(t *testing.T) {
	all := requirements(t, "testcontainers")
	for path := range all {
		if path+"/" == module || strings.HasPrefix(path, "k8s.io/") {
			t.Errorf("testcontainers/go.mod requires %s", path)
		}
	}
	if version := all["github.com/testcontainers/testcontainers-go"]; version != "v0.38.0" { // the first that has Run
		t.Errorf("testcontainers/go.mod requires testcontainers-go %s", version)
	}
}

// TestMulticlusterMovesNothing has the providers of multicluster-runtime require, of Kubernetes, what that requires: who uses it has no
// other libraries because of the providers, and nothing of this module.
func TestMulticlusterMovesNothing(t *testing.T) {
	all := requirements(t, "multicluster")
	for path := range all {
		if path+"/" == module {
			t.Errorf("multicluster/go.mod requires %s", path)
		}
	}
	minor, _, _ := strings.Cut(strings.TrimPrefix(all["sigs.k8s.io/controller-runtime"], "v0."), ".")
	if got, _, _ := strings.Cut(strings.TrimPrefix(all["sigs.k8s.io/multicluster-runtime"], "v0."), "."); minor == "" || got != minor {
		t.Errorf("multicluster-runtime 0.%s is not that of controller-runtime 0.%s", got, minor)
	}
	for _, path := range []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"} {
		if all[path] != "v0.36.0" { // as sigs.k8s.io/multicluster-runtime v0.24.1 does
			t.Errorf("multicluster/go.mod requires %s %s", path, all[path])
		}
	}
}

// requirements are the versions of modules in a go.mod, indirect ones too.
func requirements(t *testing.T, dir string) map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join(root, dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]string{}
	for s := bufio.NewScanner(f); s.Scan(); {
		words := strings.Fields(strings.TrimPrefix(s.Text(), "require "))
		if len(words) >= 2 && strings.Contains(words[0], ".") && strings.HasPrefix(words[1], "v") {
			out[words[0]] = words[1]
		}
	}
	return out
}
