package test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
)

// executors are client-go's, by how they speak.
func executors(t *testing.T, c *rest.Config, u *url.URL) map[string]remotecommand.Executor {
	t.Helper()
	out := map[string]remotecommand.Executor{}
	made := func(e remotecommand.Executor, err error) remotecommand.Executor {
		must(t, err)
		return e
	}
	out["spdy"] = made(remotecommand.NewSPDYExecutor(c, http.MethodPost, u))
	out["websocket"] = made(remotecommand.NewWebSocketExecutor(c, http.MethodGet, u.String()))
	// A server that refuses websockets is one that does not know them.
	old := made(remotecommand.NewWebSocketExecutorForProtocols(c, http.MethodGet, u.String(), "v99.channel.k8s.io"))
	out["fallback"] = made(remotecommand.NewFallbackExecutor(old, out["spdy"], func(error) bool { return true }))
	return out
}

// execURL is the URL of a command in the pod web.
func (n *node) execURL(o corev1.PodExecOptions) *url.URL {
	o.Container = "main"
	return n.client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource("exec").
		VersionedParams(&o, scheme.ParameterCodec).URL()
}

func TestExecutors(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{})
	u := n.execURL(corev1.PodExecOptions{Command: []string{"sh", "-c", "cat; echo err >&2; exit 4"}, Stdin: true, Stdout: true, Stderr: true})
	for name, e := range executors(t, n.config(), u) {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: bytes.NewReader(make([]byte, 1<<20)), Stdout: &out, Stderr: &errs})
			if code := (utilexec.CodeExitError{}); !errors.As(err, &code) || code.Code != 4 {
				t.Errorf("it ended with %v", err)
			}
			if out.Len() != 1<<20 || errs.String() != "err\n" {
				t.Errorf("%d bytes, %q", out.Len(), errs.String())
			}
		})
	}
}

// A client that goes away, by whichever way, leaves nothing behind.
func TestCancelledExecutors(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{})
	u := n.execURL(corev1.PodExecOptions{Command: []string{"cat"}, Stdin: true, Stdout: true})
	all := executors(t, n.config(), u)
	session := func(e remotecommand.Executor) {
		ctx, cancel := context.WithCancel(t.Context())
		in, typed := io.Pipe()
		out, seen := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: seen}) }()
		_, _ = io.WriteString(typed, "x")
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		cancel()
		<-done
		_ = typed.Close()
		_ = out.Close()
	}
	for _, e := range all {
		session(e)
	}
	before := n.resources(t.Context())
	for range 10 {
		for _, e := range all {
			session(e)
		}
	}
	n.released(before)
	within(t, 10*time.Second, "that the kubelet has no connection left", func(context.Context) bool { return n.kubelet.Connections() == 0 })
}

func TestPortForwarders(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{})
	echo := echoServer(t)
	u := n.client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(n.config())
	if err != nil {
		t.Fatal(err)
	}
	plain := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(u, n.config())
	if err != nil {
		t.Fatal(err)
	}
	for name, forward := range map[string]func(ready chan struct{}, stop chan struct{}) (*portforward.PortForwarder, error){
		"spdy": func(ready, stop chan struct{}) (*portforward.PortForwarder, error) {
			return portforward.New(plain, []string{":" + echo}, stop, ready, io.Discard, io.Discard)
		},
		"websocket": func(ready, stop chan struct{}) (*portforward.PortForwarder, error) {
			return portforward.New(tunnel, []string{":" + echo}, stop, ready, io.Discard, io.Discard)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ready, stop := make(chan struct{}), make(chan struct{})
			f, err := forward(ready, stop)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- f.ForwardPorts() }()
			select {
			case <-ready:
			case err := <-done:
				t.Fatal(err)
			}
			ports, err := f.GetPorts()
			if err != nil {
				t.Fatal(err)
			}
			if err := throughEcho("127.0.0.1:"+port(ports[0].Local), 1<<20); err != nil {
				t.Error(err)
			}
			close(stop)
			<-done
		})
	}
}

// TestStreamsByOlderKubectl uses kubectl of the two minor versions before.
func TestStreamsByOlderKubectl(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{Command: []string{"echo", "logged"}})
	echo := echoServer(t)
	for _, version := range []string{"v1.34", "v1.35"} {
		n.program = olderKubectl(t, version)
		for name, env := range transports {
			out, errs, code := n.run(env, strings.NewReader("in"), "exec", "-i", "web", "--", "sh", "-c", "cat; exit 6")
			if out != "in" || code != 6 {
				t.Errorf("%s by %s: %q, %q, %d", version, name, out, errs, code)
			}
			n.forward(env, echo, 1<<20)
		}
		if out, errs, _ := n.run(nil, nil, "logs", "web"); out != "logged\n" {
			t.Errorf("%s: %q, %q", version, out, errs)
		}
	}
}
