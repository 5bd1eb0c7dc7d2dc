package test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/test/standin"
)

// What clients learn if the kubelet is not as it should be.
func TestBrokenKubelet(t *testing.T) {
	t.Parallel()
	n := withKubelet(t, "--kubelet-timeout=2s", "--request-timeout=3s")
	n.pod("web", corev1.Container{})
	_, _, _ = n.run(nil, nil, "exec", "web", "--", "true")
	_, _, _ = n.run(nil, nil, "logs", "web")
	before := n.resources(t.Context())
	refuse := func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "out of order", http.StatusInternalServerError)
		return true
	}
	hang := func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	for name, c := range map[string]struct {
		with func(w http.ResponseWriter, r *http.Request) bool
		want string
	}{
		"refuses":         {refuse, "out of order"},
		"does not answer": {hang, "the backend did not answer within 3s"},
	} {
		n.kubelet.Intercept(c.with)
		for transport, env := range transports {
			if _, errs, code := n.run(env, nil, "exec", "web", "--", "true"); code != 1 || !strings.Contains(errs, c.want) {
				t.Errorf("%s by %s: %d, %q", name, transport, code, errs)
			}
		}
	}
	n.kubelet.Intercept(refuse)
	if _, errs, code := n.run(nil, nil, "logs", "web"); code != 1 || !strings.Contains(errs, "out of order") {
		t.Errorf("logs: %d, %q", code, errs)
	}
	n.kubelet.Intercept(nil)
	// A kubelet that closes in mid-stream, and a client that is gone.
	for transport, env := range transports {
		for what, end := range map[string]func(cmd *exec.Cmd){
			"cut":    func(*exec.Cmd) { n.kubelet.Cut() },
			"killed": func(cmd *exec.Cmd) { _ = cmd.Process.Kill() },
		} {
			cmd := n.kubectl(t.Context(), "exec", "-i", "web", "--", "sh", "-c", "echo begun; cat")
			cmd.Env = append(cmd.Env, env...)
			in, typed := io.Pipe()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var errs lockedBuffer
			cmd.Stdin, cmd.Stderr = in, &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			newScreen(out).await(t, "begun\n")
			end(cmd)
			_ = typed.Close()
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code == 0 && transport == "websocket" {
				t.Errorf("%s by %s: %q", what, transport, errs.String())
			}
		}
	}
	n.released(before)
	n.kubelet.Stop()
	for transport, env := range transports {
		if _, errs, code := n.run(env, nil, "exec", "web", "--", "true"); code != 1 || !strings.Contains(errs, "connect: connection refused") {
			t.Errorf("stopped, by %s: %d, %q", transport, code, errs)
		}
	}
}

func TestWrongKubeletCertificate(t *testing.T) {
	t.Parallel()
	other := standin.Start(t, "other")
	n := withKubelet(t, "--kubelet-certificate-authority="+other.CA)
	n.pod("web", corev1.Container{Command: []string{"echo", "hello"}})
	for transport, env := range transports {
		if _, errs, code := n.run(env, nil, "exec", "web", "--", "true"); code != 1 || !strings.Contains(errs, "certificate signed by unknown authority") {
			t.Errorf("%s: %d, %q", transport, code, errs)
		}
	}
	if _, errs, code := n.run(nil, nil, "logs", "web"); code != 1 || !strings.Contains(errs, "certificate signed by unknown authority") {
		t.Errorf("logs: %d, %q", code, errs)
	}
	if out, errs, code := n.run(nil, nil, "logs", "web", "--insecure-skip-tls-verify-backend"); code != 0 || out != "hello\n" {
		t.Errorf("logs: %d, %q, %q", code, out, errs)
	}
}

// Shutting down ends streams, and says so; the audit log tells of their end.
func TestStreamsAtTheEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	must(t, os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  resources: [{group: '', resources: [pods/exec, pods/log]}]\n- level: None\n"), 0o600))
	n := withKubelet(t, "--audit-policy-file="+policy, "--audit-log-path="+log)
	n.pod("web", corev1.Container{})
	var sessions []*exec.Cmd
	var said []*lockedBuffer
	for _, env := range transports {
		cmd := n.kubectl(t.Context(), "exec", "web", "--", "sh", "-c", "echo begun; sleep 3600")
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.StdoutPipe()
		must(t, err)
		errs := &lockedBuffer{}
		cmd.Stderr = errs
		must(t, cmd.Start())
		newScreen(out).await(t, "begun\n")
		sessions, said = append(sessions, cmd), append(said, errs)
	}
	if code, took := n.end(syscall.SIGTERM); code != 0 || took > 10*time.Second {
		t.Errorf("the server ended with %d after %s", code, took)
	}
	told := ""
	for i, cmd := range sessions {
		_ = cmd.Wait()
		told += said[i].String()
	}
	if !strings.Contains(told, "the server is shutting down") {
		t.Errorf("clients were told %q", told)
	}
	within(t, 10*time.Second, "that the kubelet has no connection left", func(context.Context) bool { return n.kubelet.Connections() == 0 })
	text, err := os.ReadFile(log)
	must(t, err)
	for stage, want := range map[string]int{"RequestReceived": 2, "ResponseStarted": 2, "ResponseComplete": 2} {
		if got := strings.Count(string(text), `"stage":"`+stage+`"`); got != want {
			t.Errorf("%d events of stage %s:\n%s", got, stage, text)
		}
	}
}

// --max-connection-bytes-per-sec slows streams down.
func TestThrottledStreams(t *testing.T) {
	t.Parallel()
	n := withKubelet(t, "--max-connection-bytes-per-sec=100000")
	n.pod("web", corev1.Container{})
	for name, env := range transports {
		began := time.Now()
		out, errs, code := n.run(env, nil, "exec", "web", "--", "head", "-c", "300000", "/dev/zero")
		if took := time.Since(began); len(out) != 300000 || code != 0 || took < 1800*time.Millisecond || took > 20*time.Second {
			t.Errorf("%s: %d bytes in %s, %d, %s", name, len(out), took, code, errs)
		}
	}
}

// Streams are counted while they last, under kube-apiserver's names.
func TestStreamsAreCounted(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{})
	cmd := n.kubectl(t.Context(), "exec", "-i", "web", "--", "sh", "-c", "echo begun; cat")
	in, typed := io.Pipe()
	cmd.Stdin = in
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	newScreen(out).await(t, "begun\n")
	metric := func(line string) bool {
		text, err := n.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		must(t, err)
		return strings.Contains(string(text), line)
	}
	running := `apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="resource",subresource="exec",verb="CONNECT",version="v1"} `
	if !metric(running + "1") {
		t.Error("the stream is not counted")
	}
	_ = typed.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	within(t, 10*time.Second, "that it is counted no more", func(context.Context) bool { return metric(running + "0") })
	for _, line := range []string{`apiserver_stream_translator_requests_total{code="200"} 1`, `apiserver_websocket_streaming_requests_total{proxy_type="translated_at_apiserver",subresource="exec"} 1`} {
		if !metric(line) {
			t.Errorf("there is no %s", line)
		}
	}
}
