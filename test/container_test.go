package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// imageVariable names an image that the container engine has, and is to be tested; `make test-containers` sets it.
const imageVariable = "KANZEN_IMAGE"

// containerUser owns the data of containers here: neither the administrator nor the image's own user.
const containerUser = 12345

// engine is a container engine by its command, docker or podman.
type engine struct{ command, image string }

// needEngine skips a test without an engine or an image.
func needEngine(t *testing.T) *engine {
	t.Helper()
	image := os.Getenv(imageVariable)
	if image == "" {
		t.Skipf("$%s names no image: make test-containers builds one and runs this", imageVariable)
	}
	for _, command := range []string{"docker", "podman"} {
		if exec.CommandContext(t.Context(), command, "info").Run() == nil {
			return &engine{command, image}
		}
	}
	t.Fatalf("%s=%s, but neither docker nor podman reaches a container engine", imageVariable, image)
	return nil
}

// run runs a command of the engine, which has to succeed.
func (e *engine) run(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := output(t, e.command, args...)
	if code != 0 {
		t.Fatalf("%s %s: exit code %d\n%s%s", e.command, strings.Join(args, " "), code, out, errs)
	}
	return strings.TrimSpace(out)
}

// start runs a container until the end of the test, and returns its name once it serves.
func (e *engine) start(t *testing.T, args ...string) string {
	t.Helper()
	name := fmt.Sprintf("kanzen-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() { _ = exec.Command(e.command, "rm", "-f", "-v", name).Run() })
	e.run(t, append([]string{"run", "-d", "--name", name}, args...)...)
	e.serves(t, name, 1)
	return name
}

// serves waits until the log of a container says for the n-th time that it serves.
func (e *engine) serves(t *testing.T, name string, n int) {
	t.Helper()
	within(t, time.Minute, name+" serves", func(context.Context) bool {
		return strings.Count(e.run(t, "logs", name), " serves Kubernetes ") >= n
	})
}

// TestContainer does what the README shows of containers: the data is on the host, and kubectl asks in the container and on the host.
// Then the container stops, and goes on with its data.
func TestContainer(t *testing.T) {
	t.Parallel()
	e := needEngine(t)
	data := filepath.Join(t.TempDir(), "kanzen-data")
	must(t, os.Mkdir(data, 0o700))
	must(t, os.Chmod(filepath.Dir(filepath.Dir(data)), 0o755))
	must(t, os.Chmod(filepath.Dir(data), 0o755))
	must(t, os.Chown(data, containerUser, containerUser))
	name := e.start(t, "--user", fmt.Sprintf("%d:%d", containerUser, containerUser), "-p", "127.0.0.1:0:6443", "-v", data+":/data", e.image)

	inside := append([]string{"exec", name}, "/kanzen", "kubectl")
	if out := e.run(t, append(inside, "get", "namespaces")...); !strings.Contains(out, "kube-system") {
		t.Errorf("%s", out)
	}
	_, port, _ := strings.Cut(e.run(t, "port", name, "6443/tcp"), ":")
	outside := []string{"--kubeconfig", filepath.Join(data, "pki", "admin.kubeconfig"), "--server", "https://127.0.0.1:" + port}
	if _, errs, code := output(t, binaries.kubectl, append(outside, "create", "configmap", "kept")...); code != 0 {
		t.Errorf("on the host: %s", errs)
	}

	began := time.Now()
	e.run(t, "stop", "-t", "10", name) // Docker's own time; podman's API takes none as 0
	took := time.Since(began)
	if code := e.run(t, "inspect", "--format", "{{.State.ExitCode}}", name); code != "0" || took > 8*time.Second {
		t.Errorf("it stopped after %v with exit code %s", took, code)
	}
	e.run(t, "start", name)
	e.serves(t, name, 2)
	e.run(t, append(inside, "get", "configmap", "kept")...)
}

// TestContainerConfined has the image's own user, no capabilities and a root that cannot be written to; its data is a volume. What
// the engine asks to know its health succeeds.
func TestContainerConfined(t *testing.T) {
	t.Parallel()
	e := needEngine(t)
	name := e.start(t, "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", e.image)
	if out := e.run(t, "exec", name, "/kanzen", "kubectl", "auth", "whoami"); !strings.Contains(out, "kubernetes-admin") {
		t.Errorf("%s", out)
	}
	var health struct{ Test []string }
	must(t, json.Unmarshal([]byte(e.run(t, "inspect", "--format", "{{json .Config.Healthcheck}}", name)), &health))
	if len(health.Test) < 2 || health.Test[0] != "CMD" {
		t.Fatalf("its health is not asked for: %q", health.Test)
	}
	e.run(t, append([]string{"exec", name}, health.Test[1:]...)...)
	user := e.run(t, "inspect", "--format", "{{.Config.User}}", name)
	if id, err := strconv.Atoi(user); err != nil || id == 0 {
		t.Errorf("it runs as %q", user)
	}
}
