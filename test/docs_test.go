package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fileBlock    = regexp.MustCompile("(?ms)^```\\S+ file=(\\S+)\n(.*?)^```$")
	commandBlock = regexp.MustCompile("(?ms)^```console test\n(.*?)^```$")
	listBlock    = regexp.MustCompile("(?ms)^   ```.*?^   ```$")
	listIndent   = regexp.MustCompile("(?m)^   ")
)

// readPage returns a page's text, with the fenced blocks of lists at the margin like all others.
func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return listBlock.ReplaceAllStringFunc(string(text), func(block string) string { return listIndent.ReplaceAllString(block, "") })
}

// TestDocs runs the commands of the documentation, in their order, as a person would: in a shell, with kanzen and kubectl on
// PATH, and a server that was started by `kanzen serve`.
func TestDocs(t *testing.T) {
	t.Parallel()
	things, err := build("THINGS", filepath.Join(t.TempDir(), "things"), "..", "./pkg/extension/examples/things")
	must(t, err)
	for _, page := range []string{"why.md", "first-steps.md", "running.md", "planes.md", "replacing.md", "testing.md", "extension.md", "extensions.md", "backup.md",
		"from/envtest.md", "from/kind.md", "from/k3s.md", "from/kcp.md"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			text := strings.ReplaceAll(readPage(t, filepath.Join("..", "docs", page)), "7443", freePort(t))
			home := t.TempDir()
			t.Cleanup(func() { // of a command that failed
				if pid, err := os.ReadFile(filepath.Join(home, "things.pid")); err == nil && t.Failed() {
					_ = exec.Command("kill", strings.TrimSpace(string(pid))).Run()
				}
			})
			serve(t, filepath.Join(home, ".local", "share", "kanzen"))
			for _, f := range fileBlock.FindAllStringSubmatch(text, -1) {
				must(t, os.WriteFile(filepath.Join(home, f[1]), []byte(f[2]), 0o600))
			}
			n := 0
			for _, block := range commandBlock.FindAllStringSubmatch(text, -1) {
				for line := range strings.Lines(block[1]) {
					command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
					if !ok {
						t.Fatalf("%q does not begin with $", line)
					}
					n++
					cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
					cmd.Dir = home
					cmd.Env = []string{"HOME=" + home, "PATH=" + strings.Join([]string{binaries.dir, filepath.Dir(things), os.Getenv("PATH")}, string(os.PathListSeparator))}
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Fatalf("%s: %v\n%s", command, err, out)
					}
				}
			}
			if n == 0 {
				t.Error("no commands were found")
			}
		})
	}
}

// The manifest that a release brings is one that a server accepts.
func TestReleasedManifest(t *testing.T) {
	t.Parallel()
	k := serve(t, t.TempDir())
	kubectl := func(args ...string) {
		t.Helper()
		if _, stderr, code := output(t, binaries.kubectl, append([]string{"--kubeconfig", k.kubeconfig()}, args...)...); code != 0 {
			t.Errorf("%v: %s", args, stderr)
		}
	}
	kubectl("create", "namespace", "kanzen") // a dry run does not make it
	kubectl("label", "namespace", "kanzen", "pod-security.kubernetes.io/enforce=restricted")
	kubectl("apply", "--dry-run=server", "-f", filepath.Join("..", "release", "kubernetes", "kanzen.yaml"))
}
