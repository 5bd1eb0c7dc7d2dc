package test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/kanzen-io/kanzen/test/peer"
	"github.com/kanzen-io/kanzen/test/standin"
)

var figures = flag.Bool("streams.figures", false, "measure idle and busy sessions, also of kube-apiserver")

// TestStreamFigures measures what sessions cost, with -streams.figures.
func TestStreamFigures(t *testing.T) {
	if !*figures {
		t.Skip("needs -streams.figures")
	}
	kubelet := standin.Start(t, "n1")
	here := serve(t, t.TempDir())
	there := peer.Start(t)
	for _, s := range []struct {
		name   string
		config *rest.Config
		pid    int
	}{{"kanzen", here.config(), here.cmd.Process.Pid}, {"kube-apiserver", there, childNamed(t, "kube-apiserver")}} {
		client := kubernetes.NewForConfigOrDie(s.config)
		ensureAccount(t, client)
		kubelet.Register(t, client)
		kubelet.Run(t, client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}})
		execURL := func(o corev1.PodExecOptions) string {
			return client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource("exec").
				VersionedParams(&o, scheme.ParameterCodec).URL().String()
		}
		idle(t, s.name, s.config, s.pid, execURL(corev1.PodExecOptions{Command: []string{"cat"}, Stdin: true, Stdout: true}))
		for _, how := range []string{"websocket", "spdy"} {
			out := execURL(corev1.PodExecOptions{Command: []string{"head", "-c", "20000000", "/dev/zero"}, Stdout: true})
			in := execURL(corev1.PodExecOptions{Command: []string{"sh", "-c", "cat >/dev/null"}, Stdin: true, Stdout: true})
			busy(t, s.name+" out "+how, s.config, s.pid, how, out, 0)
			busy(t, s.name+" in  "+how, s.config, s.pid, how, in, 20_000_000)
		}
	}
}

// idle opens sessions over websockets that do nothing.
func idle(t *testing.T, name string, c *rest.Config, pid int, u string) {
	const sessions = 500
	settings, err := rest.TLSConfigFor(c)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	if c.BearerToken != "" {
		header.Set("Authorization", "Bearer "+c.BearerToken)
	}
	d := websocket.Dialer{TLSClientConfig: settings, Subprotocols: []string{"v5.channel.k8s.io"}}
	open := func() *websocket.Conn {
		conn, _, err := d.DialContext(t.Context(), "wss"+strings.TrimPrefix(u, "https"), header)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.WriteMessage(websocket.BinaryMessage, []byte("\x00x")); err != nil {
			t.Fatal(err)
		}
		for {
			if _, data, err := conn.ReadMessage(); err != nil {
				t.Fatal(err)
			} else if string(data) == "\x01x" {
				return conn
			}
		}
	}
	_ = open().Close()
	time.Sleep(time.Second)
	before := resident(t, pid)
	var conns []*websocket.Conn
	for range sessions {
		conns = append(conns, open())
	}
	opened := resident(t, pid)
	time.Sleep(20 * time.Second)
	settled := resident(t, pid)
	fmt.Printf("%-16s idle: %d KB a session when opened, %d KB after 20 s (server %d -> %d MB)\n", name, (opened-before)/sessions, (settled-before)/sessions, before>>10, settled>>10)
	for _, conn := range conns {
		_ = conn.Close()
	}
	time.Sleep(2 * time.Second)
}

// busy runs sessions that carry 20 MB each.
func busy(t *testing.T, name string, c *rest.Config, pid int, how, u string, input int) {
	const sessions, size = 50, 20_000_000
	began, cpu := time.Now(), cpuTime(t, pid)
	var g errgroup.Group
	for range sessions {
		g.Go(func() error {
			e, err := remotecommand.NewWebSocketExecutor(c, http.MethodGet, u)
			if how == "spdy" {
				req, _ := http.NewRequest(http.MethodPost, u, nil)
				e, err = remotecommand.NewSPDYExecutor(c, http.MethodPost, req.URL)
			}
			if err != nil {
				return err
			}
			o := remotecommand.StreamOptions{Stdout: countWriter{}}
			if input > 0 {
				o.Stdin = bytes.NewReader(make([]byte, input))
			}
			return e.StreamWithContext(context.Background(), o)
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(name, err)
	}
	took := time.Since(began)
	fmt.Printf("%-30s %d x %d MB: %.1f s, %.0f MB/s; CPU of the server %.2f s; resident %d MB\n", name, sessions, size/1_000_000, took.Seconds(),
		float64(sessions*size)/1e6/took.Seconds(), (cpuTime(t, pid) - cpu).Seconds(), resident(t, pid)>>10)
}

type countWriter struct{}

func (countWriter) Write(p []byte) (int, error) { return len(p), nil }

// resident is the memory of a process in KB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

// cpuTime is the time that a process has computed.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// childNamed is the process of a program that this test started.
func childNamed(t *testing.T, name string) int {
	t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
		if fields[1] == strconv.Itoa(os.Getpid()) && strings.Contains(string(text), "("+name[:min(15, len(name))]+")") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	t.Fatalf("no process %s", name)
	return 0
}
