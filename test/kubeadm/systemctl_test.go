//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/test/machine"
)

// TestSystemctl does with the service what kubeadm does.
func TestSystemctl(t *testing.T) {
	dir := t.TempDir()
	script, log := filepath.Join(dir, "systemctl"), filepath.Join(dir, "log")
	values := strings.NewReplacer("$PROGRAMS", dir, "$LOG", log, "/run/", dir+"/", "/var/lib/kubelet/kubeadm-flags.env", filepath.Join(dir, "env"), "sleep 1", "sleep 0.01")
	for name, text := range map[string]string{
		"systemctl": values.Replace(systemctl),
		"kubelet":   "#!/bin/sh\necho began \"$@\"\nif rm " + dir + "/fails; then exit 1; fi\nexec sleep 600\n",
		"env":       "KUBELET_KUBEADM_ARGS=\"--taint=a --name=b\"\n",
		"fails":     "the first start fails",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	call := func(code int, prints string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), script, args...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), prints) {
			t.Errorf("%v: %v: %s; want code %d and %q", args, err, out, code, prints)
		}
	}
	began := func(times int) {
		t.Helper()
		if err := machine.Eventually(t.Context(), 10*time.Second, "the kubelet begins", func(context.Context) error {
			b, err := os.ReadFile(log)
			if err == nil && strings.Count(string(b), "began --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf") != times || !strings.Contains(string(b), "--taint=a --name=b") {
				err = errors.New(string(b))
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { _ = exec.Command(script, "stop", "kubelet").Run() })
	call(0, "", "daemon-reload")
	call(3, "inactive", "is-active", "kubelet")
	call(0, "Loaded: loaded", "status", "kubelet")
	call(0, "enabled", "is-enabled", "kubelet.service")
	call(0, "", "start", "kubelet")
	began(2) // it was started again after it had failed
	call(0, "active", "is-active", "kubelet")
	call(0, "", "start", "kubelet")
	call(0, "", "restart", "--no-block", "kubelet")
	began(3)
	call(0, "", "stop", "kubelet")
	call(3, "inactive", "is-active", "kubelet")
	call(3, "inactive", "is-active", "firewalld")
	call(4, "could not be found", "status", "firewalld")
}
