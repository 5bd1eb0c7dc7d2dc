package test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

func TestKubectlPortForward(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{})
	echo := echoServer(t)
	for name, env := range transports {
		t.Run(name, func(*testing.T) { n.forward(env, echo, *megabytes<<20) })
	}
}

// forward sends bytes through 20 connections at once.
func (n *node) forward(env []string, port string, size int) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	defer cancel()
	cmd := n.kubectl(ctx, "port-forward", "pod/web", ":"+port)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.StdoutPipe()
	must(n.t, err)
	must(n.t, cmd.Start())
	seen, local := newScreen(out), regexp.MustCompile(`127\.0\.0\.1:(\d+) ->`)
	within(n.t, 20*time.Second, "the port", func(context.Context) bool { return local.MatchString(seen.String()) })
	address := "127.0.0.1:" + local.FindStringSubmatch(seen.String())[1]
	var g errgroup.Group
	for range 20 {
		g.Go(func() error { return throughEcho(address, size/20) })
	}
	if err := g.Wait(); err != nil {
		n.t.Error(err)
	}
	cancel()
	_ = cmd.Wait()
}

// echoServer sends back what it gets, and the end. It returns its port.
func echoServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// throughEcho sends random bytes and compares what comes back.
func throughEcho(addr string, size int) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	sent := sha256.New()
	go func() {
		_, _ = io.Copy(io.MultiWriter(c, sent), io.LimitReader(rand.Reader, int64(size)))
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	got := sha256.New()
	if n, err := io.CopyN(got, c, int64(size)); err != nil {
		return fmt.Errorf("after %d bytes: %w", n, err)
	}
	if !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		return fmt.Errorf("other bytes came back")
	}
	return nil
}

func TestKubectlProxy(t *testing.T) {
	t.Parallel()
	n := withKubelet(t)
	n.pod("web", corev1.Container{Command: []string{"echo", "logged"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := n.kubectl(ctx, "proxy", "--port=0", "--reject-paths=^$") // which leaves out exec by default
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	seen := newScreen(out)
	within(t, 20*time.Second, "the address", func(context.Context) bool { return seen.has("\n") })
	host := strings.TrimSpace(strings.TrimPrefix(seen.String(), "Starting to serve on "))
	within(t, 20*time.Second, "the log", func(ctx context.Context) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/api/v1/namespaces/default/pods/web/log", nil)
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return err == nil && string(text) == "logged\n"
	})
	u := n.execURL(corev1.PodExecOptions{Command: []string{"echo", "run"}, Stdout: true})
	u.Scheme, u.Host = "http", host
	for name, e := range executors(t, &rest.Config{Host: "http://" + host}, u) {
		var ran bytes.Buffer
		if err := e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &ran}); err != nil || ran.String() != "run\n" {
			t.Errorf("%s: %q, %v", name, ran.String(), err)
		}
	}
	cancel()
	_ = cmd.Wait()
}
