// Package http2_test judges the HTTP/2 server of a running kanzen from outside, at its port: by h2spec, by clients of
// frames that are hostile or wrong, and by clients that are slow but right.
//
//	go test ./http2                                   builds kanzen first
//	KANZEN=../../bin/kanzen go test ./http2           tests that binary
//	go test ./http2 -run TestH2Spec/http2/6.9 -v      some cases
//
// Nothing here knows which server answers. Where RFC 9113 leaves a choice, or net/http chose otherwise, what is accepted is
// what either allows, and a comment says what net/http does.
package http2_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	token = "hostile" // of a user of system:masters
	// patience bounds what is waited for. What takes longer does not come.
	patience = 20 * time.Second
	// atOnce bounds an answer to a client that does no harm, while another does.
	atOnce = time.Second
	// origin is allowed by CORS: the answer to its preflight is the one answer of 204.
	origin = "https://console.example.com"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "kanzen-http2-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if binary = os.Getenv("KANZEN"); binary == "" {
		binary = filepath.Join(dir, "kanzen")
		build := exec.Command("go", "build", "-o", binary, "./cmd/kanzen")
		build.Dir = filepath.Join("..", "..")
		if b, err := build.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("build: %w\n%s", err, b)
		}
	}
	return m.Run(), nil
}

// server is a process that serves.
type server struct {
	addr   string // host:port
	pid    int
	data   string // its folder
	log    string // the file that it writes its log to
	client *http.Client
}

// start starts kanzen on a free port, with data of its own, for one test.
func start(t *testing.T, flags ...string) *server {
	t.Helper()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.csv")
	must(t, os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600))
	data := filepath.Join(dir, "data")
	cmd := exec.Command(binary, append([]string{"serve", "--data-dir", data, "--secure-port=0", "--token-auth-file", tokens,
		"--cors-allowed-origins", "^" + regexp.QuoteMeta(origin) + "$"}, flags...)...)
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	s := &server{pid: cmd.Process.Pid, data: data, log: log.Name(), client: newClient()}
	t.Cleanup(func() {
		s.noPanic(t)
		s.client.CloseIdleConnections()
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()
		if b, err := os.ReadFile(s.log); err == nil && t.Failed() {
			t.Logf("it said: %s", b[max(0, len(b)-4000):])
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := regexp.MustCompile(`https://(\S+:\d+)`).FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			s.addr = m[1]
			return s
		}
	}
	t.Fatal("it does not say where it is")
	return nil
}

// newClient is net/http's client, with connections of its own.
func newClient() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableCompression: true,
	}}
}

// do sends a request by net/http's client.
func (s *server) do(t *testing.T, method, path string, body []byte) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.addr+path, bytes.NewReader(body))
	must(t, err)
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"application/json"}}
	resp, err := s.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, b
}

// create makes an object.
func (s *server) create(t *testing.T, path string, body []byte) {
	t.Helper()
	if resp, b := s.do(t, http.MethodPost, path, body); resp.StatusCode != http.StatusCreated {
		t.Fatalf("POST %s: %s %s", path, resp.Status, b)
	}
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// configMap is an object whose data has so many bytes.
func configMap(name string, size int) []byte {
	return []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"k":"` + strings.Repeat("0123456789abcdef", size/16+1)[:size] + `"}}`)
}

// list fills the server with so many ConfigMaps of 500 kB, and returns the path of a list of them that is the same each time
// that it is asked for, with the list.
func (s *server) list(t *testing.T, n int) (path string, body []byte) {
	t.Helper()
	for i := range n {
		s.create(t, configMaps, configMap(fmt.Sprintf("large-%d", i), 500_000))
	}
	_, b := s.do(t, http.MethodGet, configMaps+"?limit=1", nil)
	m := regexp.MustCompile(`"resourceVersion":"(\d+)"`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("no resourceVersion in %.300s", b)
	}
	path = configMaps + "?resourceVersionMatch=Exact&resourceVersion=" + string(m[1])
	resp, body := s.do(t, http.MethodGet, path, nil)
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || len(body) < n*500_000 {
		t.Fatalf("GET %s: %s, %d bytes by %s", path, resp.Status, len(body), resp.Proto)
	}
	return path, body
}

// answers tells whether a client with a connection of its own is answered at once.
func (s *server) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, atOnce)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.addr+"/livez", nil)
	if err != nil {
		return err
	}
	c := newClient()
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || string(b) != "ok" {
		return fmt.Errorf("GET /livez: %s %q %w", resp.Status, b, err)
	}
	return nil
}

// noPanic reads the log.
func (s *server) noPanic(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(s.log)
	must(t, err)
	for _, line := range strings.Split(string(b), "\n") {
		if lower := strings.ToLower(line); strings.Contains(lower, "panic") || strings.Contains(lower, "fatal error") || strings.Contains(lower, "runtime error") {
			t.Errorf("its log has %q", line)
		}
	}
}

// memory returns what the process holds, and the most that it held since forget, in MiB.
func (s *server) memory(t *testing.T) (now, peak int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	must(t, err)
	for _, line := range strings.Split(string(status), "\n") {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmRSS":
			now = kib >> 10
		case "VmHWM":
			peak = kib >> 10
		}
	}
	if now == 0 {
		t.Fatal("the server has ended")
	}
	return now, peak
}

// forget resets the most that memory tells of.
func (s *server) forget(t *testing.T) {
	t.Helper()
	must(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.pid), []byte("5"), 0))
}

// goroutines asks the server how many it has.
func (s *server) goroutines(t *testing.T) int {
	t.Helper()
	_, b := s.do(t, http.MethodGet, "/metrics", nil)
	m := regexp.MustCompile(`(?m)^go_goroutines (\d+)$`).FindSubmatch(b)
	if m == nil {
		t.Fatal("no go_goroutines in /metrics")
	}
	n, err := strconv.Atoi(string(m[1]))
	must(t, err)
	return n
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
