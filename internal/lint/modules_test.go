package lint

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// modules are compiled by `make test` along with the root. testkit is not among them: its requirements are low on purpose, so that
// it moves nothing in the modules that use it.
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
