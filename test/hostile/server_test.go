package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/test/peer"
	"github.com/kanzen-io/kanzen/test/program"
)

var (
	withPeer = flag.Bool("peer", false, "measure kube-apiserver too")
	table    = flag.String("table", "", "write the figures to a file, as a table")
)

// server is a process that serves.
type server struct {
	name, url, token string
	pid              int
	client           *http.Client
}

const admin = "hostile"

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// kanzen starts the program under test.
func kanzen(t *testing.T) *server {
	t.Helper()
	p := program.Serve(t, admin)
	s := &server{name: "kanzen", url: "https://" + p.Addr, token: admin, pid: p.PID}
	s.connect(t)
	return s
}

// upstream starts kube-apiserver.
func upstream(t *testing.T) *server {
	t.Helper()
	c := peer.Start(t)
	s := &server{name: "kube-apiserver", url: c.Host, token: c.BearerToken}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range stats {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte("(kube-apiserver)")) && bytes.Contains(b, []byte(fmt.Sprintf(" %d ", os.Getpid()))) {
			s.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(f)))
		}
	}
	if s.pid == 0 {
		t.Fatal("no process of kube-apiserver")
	}
	s.connect(t)
	return s
}

// patience bounds a request; what takes longer has no answer.
const patience = 60 * time.Second

func (s *server) connect(t *testing.T) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 8 << 20}
	s.client = &http.Client{Transport: transport, Timeout: patience}
	t.Cleanup(transport.CloseIdleConnections)
}

// request is one that is put to a server.
type request struct {
	method, path, contentType string
	body                      []byte
	header                    http.Header
}

// do returns the code of the answer, 0 where there was none, and the beginning
// of its body.
func (s *server) do(ctx context.Context, r request) (int, string) {
	if r.method == "" {
		r.method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, r.method, s.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header = http.Header{"Authorization": {"Bearer " + s.token}, "Accept": {"application/json"}}
	if r.contentType == "" && len(r.body) > 0 {
		r.contentType = "application/json"
	}
	req.Header.Set("Content-Type", r.contentType)
	for k, v := range r.header {
		req.Header[k] = v
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 2000))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// must makes what a row stands on, again for a while where it is not yet possible.
func (s *server) must(t *testing.T, r request) {
	t.Helper()
	code, body := 0, ""
	for range 100 {
		if code, body = s.do(t.Context(), r); code/100 == 2 || code == http.StatusConflict {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s %s: %d %s", r.method, r.path, code, body)
}

// usage is what a process has taken.
type usage struct {
	cpu  time.Duration
	rss  int // now, in MiB
	peak int // since it was last reset, in MiB
}

// tick is the unit of time in /proc.
const tick = 10 * time.Millisecond

func (s *server) usage(t *testing.T) (u usage) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	for _, f := range fields[11:13] { // of user and system
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		u.cpu += time.Duration(n) * tick
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmRSS":
			u.rss = n >> 10
		case "VmHWM":
			u.peak = n >> 10
		}
	}
	return u
}

// forget resets the peak.
func (s *server) forget(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}
