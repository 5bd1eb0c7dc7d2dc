package test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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

// TestTestCommandUntilStdinCloses has a server without a command, for a test kit; it serves planes, too.
func TestTestCommandUntilStdinCloses(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), binaries.kanzen, "test", "--until-stdin-closes", "--planes")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	path, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	path = strings.TrimSpace(path)
	within(t, 30*time.Second, "planes are served", func(context.Context) bool {
		_, _, code := output(t, binaries.kubectl, "--kubeconfig", path, "get", "planes")
		return code == 0
	})
	must(t, stdin.Close())
	must(t, cmd.Wait())
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", path, err)
	}
	if _, stderr, code := output(t, binaries.kanzen, "test", "--until-stdin-closes", "--", "true"); code == 0 || !strings.Contains(stderr, "true") {
		t.Errorf("with a command: %d %s", code, stderr)
	}
}

// TestLanguages runs the examples with clients of other languages, where these are installed: for Python where a python3 finds it, for Ruby
// where ruby does, for JavaScript in the example or in $NODE_PATH.
func TestLanguages(t *testing.T) {
	t.Parallel()
	t.Run("python", func(t *testing.T) {
		t.Parallel()
		// Debian's package is for its own Python, which need not be the first one in the PATH.
		for _, python := range []string{"python3", "/usr/bin/python3"} {
			if exec.CommandContext(t.Context(), python, "-c", "import kubernetes").Run() == nil {
				runExample(t, "../examples/python", "OK", python, "-B", "-m", "unittest")
				return
			}
		}
		t.Skip("python3 does not have the client: pip install -r examples/python/requirements.txt, or Debian's python3-kubernetes")
	})
	t.Run("ruby", func(t *testing.T) {
		t.Parallel()
		if out, err := exec.CommandContext(t.Context(), "ruby", "-e", "require 'kubeclient'; require 'minitest'").CombinedOutput(); err != nil {
			t.Skipf("ruby does not have the client (bundle install in examples/ruby, or Debian's ruby-kubeclient and ruby-minitest): %v %s", err, out)
		}
		runExample(t, "../examples/ruby", "2 runs, 5 assertions, 0 failures, 0 errors", "ruby", "test_labeller.rb")
	})
	t.Run("javascript", func(t *testing.T) {
		t.Parallel()
		const folder, client = "../examples/javascript", "@kubernetes/client-node"
		if _, err := exec.LookPath("node"); err != nil {
			t.Skip(err)
		}
		for _, modules := range append([]string{folder + "/node_modules"}, filepath.SplitList(os.Getenv("NODE_PATH"))...) {
			if _, err := os.Stat(filepath.Join(modules, client)); err == nil {
				runExample(t, withModules(t, folder, modules), "# pass 2", "node", "--test", "--test-reporter=tap")
				return
			}
		}
		t.Skipf("%s is neither in %s/node_modules (npm install there) nor in $NODE_PATH", client, folder)
	})
}

// runExample runs a command in a folder with a server, and looks for what it prints if all is well.
func runExample(t *testing.T, folder, want string, command ...string) {
	t.Helper()
	kanzen, err := filepath.Abs(binaries.kanzen)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), kanzen, append([]string{"test", "--"}, command...)...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, want %q\n%s", err, want, out)
	}
}

// withModules is a copy of a folder with modules beside it: node looks for what is imported nowhere else.
func withModules(t *testing.T, folder, modules string) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(folder)
	must(t, err)
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(folder, e.Name()))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, e.Name()), b, 0o600))
	}
	modules, err = filepath.Abs(modules)
	must(t, err)
	must(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	return dir
}

// TestExampleModule builds and tests a module that requires this one, as others do.
func TestExampleModule(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"mod", "tidy", "-diff"}, {"test", "-vet=off", "-count=1", "./..."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = "../examples/operator-test"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
