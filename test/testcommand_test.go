package test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTestCommand runs commands with a server each: their output, their exit codes, what is left of the server.
func TestTestCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, command, out string
		code               int
	}{
		{"kubectl reaches it", binaries.kubectl + " get namespaces -o name", "namespace/kube-system", 0},
		{"the exit code", "exit 7", "", 7},
		{"a signal", "kill -TERM $$", "", 143},
		{"nothing is left", `echo "dir=$(dirname $KUBECONFIG)"`, "dir=", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), binaries.kanzen, "test", "--", "sh", "-c", c.command).Output()
			code := 0
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				code = exit.ExitCode()
			} else {
				must(t, err)
			}
			if code != c.code || !strings.Contains(string(out), c.out) {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, out)
			}
			if _, dir, ok := strings.Cut(strings.TrimSpace(string(out)), "dir="); ok {
				if _, err := os.Stat(dir); !os.IsNotExist(err) {
					t.Errorf("%s: %v", dir, err)
				}
			}
		})
	}
	t.Run("no such command", func(t *testing.T) {
		t.Parallel()
		out, err := exec.CommandContext(t.Context(), binaries.kanzen, "test", "--", "no-such-command").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "no-such-command") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestTestCommandPassesSignalsOn has the command decide what a signal means.
func TestTestCommandPassesSignalsOn(t *testing.T) {
	t.Parallel()
	p := start(t, binaries.kanzen, "test", "--", "sh", "-c", `trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done`)
	select {
	case line := <-p.stdout:
		if line != "ready" {
			t.Fatal(line)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not begin")
	}
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	if exit := (*exec.ExitError)(nil); !errors.As(p.err, &exit) || exit.ExitCode() != 5 {
		t.Errorf("%v, want exit code 5\n%s", p.err, p.stderr.String())
	}
}

// TestLanguages runs the examples of docs/testing.md with the official clients of other languages, where they are
// installed ($NODE_PATH names the directory of node's).
func TestLanguages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, program, has, file string }{
		{"python", "python3", "import kubernetes", "testdata/languages/test_kanzen.py"},
		{"javascript", "node", "import(require.resolve('@kubernetes/client-node'))", "testdata/languages/kanzen.test.js"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			flag := map[string]string{"python3": "-c", "node": "-e"}[c.program]
			if err := exec.CommandContext(t.Context(), c.program, flag, c.has).Run(); err != nil {
				t.Skipf("the client is not installed: %v", err)
			}
			out, err := exec.CommandContext(t.Context(), binaries.kanzen, "test", "--", c.program, c.file).CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.name+": ok") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestExampleModule builds and tests a module that requires this one, as others do.
func TestExampleModule(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"mod", "tidy", "-diff"}, {"test", "-count=1", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = "../examples/operator-test"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
