package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMulticluster runs the tests of the module that has providers of multicluster-runtime, and then its example as its README says.
func TestMulticluster(t *testing.T) {
	t.Parallel()
	controller := filepath.Join(t.TempDir(), "databases")
	for _, args := range [][]string{{"mod", "tidy", "-diff"}, {"test", "-vet=off", "-count=1", "./..."}, {"build", "-o", controller, "./examples/databases"}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = "../multicluster", append(os.Environ(), "KANZEN="+binaries.kanzen)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	path := filepath.Dir(binaries.kubectl) + string(os.PathListSeparator) + os.Getenv("PATH")
	readme, err := os.ReadFile("../multicluster/examples/databases/README.md")
	must(t, err)
	_, commands, _ := strings.Cut(string(readme), "```sh\n")
	commands, _, _ = strings.Cut(commands, "```\n")
	_, says, _ := strings.Cut(string(readme), "```text\n")
	says, _, _ = strings.Cut(says, "```\n")
	demo := "sh demo.sh ./databases"
	if !strings.HasSuffix(strings.TrimSpace(commands), demo) || says == "" {
		t.Fatalf("the README does not end its commands with %s: %s", demo, commands)
	}
	cmd := exec.CommandContext(t.Context(), binaries.kanzen, "test", "--planes", "--", "sh", "demo.sh", controller)
	cmd.Dir, cmd.Env = "../multicluster/examples/databases", append(os.Environ(), "PATH="+path)
	out, err := cmd.Output()
	if err != nil || !strings.HasSuffix(string(out), says) {
		t.Errorf("demo.sh: %v\n%s\nwant at the end:\n%s", err, out, says)
	}
}
