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
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/test/program"
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

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// server is a process that serves.
type server struct {
	*program.Server
	client *http.Client
}

// start starts kanzen on a free port, with data of its own, for one test.
func start(t *testing.T, flags ...string) *server {
	t.Helper()
	flags = append([]string{"--cors-allowed-origins", "^" + regexp.QuoteMeta(origin) + "$"}, flags...)
	s := &server{program.Serve(t, token, flags...), newClient()}
	t.Cleanup(func() {
		s.noPanic(t)
		s.client.CloseIdleConnections()
	})
	return s
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
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.Addr+path, bytes.NewReader(body))
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.Addr+"/livez", nil)
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
	b, err := os.ReadFile(s.Log)
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
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID))
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
	must(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.PID), []byte("5"), 0))
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
