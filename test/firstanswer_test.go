package test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFirstAnswer goes from a machine that has a shell, coreutils and curl to the first answer of kubectl: it installs a release from a
// web server, starts kanzen and asks it. Nothing else is downloaded, and it takes less than a minute.
func TestFirstAnswer(t *testing.T) {
	t.Parallel()
	downloads, dir := publishRelease(t)
	makeChannels(t, dir, downloads)
	home := t.TempDir()
	tools := filepath.Join(home, "tools")
	must(t, os.Mkdir(tools, 0o700))
	for _, tool := range []string{"sh", "uname", "mkdir", "mktemp", "cut", "sha256sum", "chmod", "mv", "rm", "curl"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Skip(err)
		}
		must(t, os.Symlink(path, filepath.Join(tools, tool)))
	}
	installed := filepath.Join(home, ".local", "bin")
	env := []string{"HOME=" + home, "PATH=" + tools + ":" + installed}
	kanzen := filepath.Join(installed, "kanzen")

	began := time.Now()
	if out, err := shell(t, env, filepath.Join(tools, "sh"), filepath.Join(dir, "get-kanzen.sh")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("installed after %v", time.Since(began))
	startReleased(t, env, kanzen)
	t.Logf("it serves after %v", time.Since(began))
	out, err := shell(t, env, kanzen, "kubectl", "get", "namespaces", "-o", "name")
	took := time.Since(began)
	t.Logf("the first answer of kubectl after %v", took)
	if err != nil || !strings.Contains(out, "namespace/default\n") || took > time.Minute {
		t.Errorf("after %v: %v %s", took, err, out)
	}

	// What it says begins with what can be typed here, and the shell completes it.
	if out, err := shell(t, env, kanzen, "kubectl", "get", "--nothing"); err == nil || !strings.Contains(out, "See 'kanzen kubectl get --help' for usage.") {
		t.Errorf("a wrong flag: %v %s", err, out)
	}
	if out, err := shell(t, env, kanzen, "kubectl", "get", "--help"); err != nil || !strings.Contains(out, "\n  kanzen kubectl get pods\n") {
		t.Errorf("help: %v %s", err, out)
	}
	for words, want := range map[string]string{
		"get namespac":           "namespaces\n:4\n",
		"get namespaces kube-sy": "kube-system\n:4\n",
		"describe no":            "nodes\n",
	} {
		if out, err := shell(t, env, append([]string{kanzen, "__complete", "kubectl"}, strings.Fields(words)...)...); err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("completion of %q: %v %q, want %q", words, err, out, want)
		}
	}
}

// startReleased starts kanzen serve as it is installed, waits until it serves, and stops it at the end of the test.
func startReleased(t *testing.T, env []string, kanzen string) {
	t.Helper()
	cmd := exec.Command(kanzen, "serve", "--secure-port=0")
	cmd.Env, cmd.Stderr = env, os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "serves Kubernetes") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	t.Fatal("it ends before it serves")
}
