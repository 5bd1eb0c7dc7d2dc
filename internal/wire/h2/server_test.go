package h2_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/wire/h2"
)

// served is a server of HTTP/2, and what it has logged.
type served struct {
	*httptest.Server
	mu  sync.Mutex
	log strings.Builder
}

// Write is part of io.Writer.
func (s *served) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(line)
}

func (s *served) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// options change a server before it starts.
type options func(*http.Server, *h2.Server)

// serve starts a server: ours, or net/http's.
func serve(t *testing.T, ours bool, handler http.HandlerFunc, change ...options) *served {
	t.Helper()
	s := &served{Server: httptest.NewUnstartedServer(handler)}
	s.Config.ErrorLog = log.New(s, "", 0)
	s.EnableHTTP2 = true
	two := &h2.Server{MaxStreams: 100, StreamWindow: 256 << 10, ConnWindow: 1 << 20, Stuck: 30 * time.Second}
	for _, c := range change {
		c(s.Config, two)
	}
	if ours {
		s.Config.TLSConfig = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
		if err := two.Configure(s.Config); err != nil {
			t.Fatal(err)
		}
		s.TLS = s.Config.TLSConfig
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// both runs a test against either server. What differs between the two is a fault of ours.
func both(t *testing.T, test func(t *testing.T, ours bool)) {
	t.Run("net/http", func(t *testing.T) { test(t, false) })
	t.Run("h2", func(t *testing.T) { test(t, true) })
}

// client returns a client of HTTP/2 for a server.
func client(s *served) *http.Client {
	c := s.Client()
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	c.Transport.(*http.Transport).DisableCompression = true
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// answerOf is what a client sees of an answer.
type answerOf struct {
	Status          int
	Header, Trailer http.Header
	Body            string
	Length          int64
	Fault           string // of sending, or of reading the body
}

// ask sends a request, and reads the answer.
func ask(t *testing.T, s *served, method, path string, body io.Reader, header http.Header) answerOf {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		r.Header[k] = v
	}
	if announced := header.Get("Trailer"); announced != "" {
		r.Header.Del("Trailer")
		r.Trailer = http.Header{announced: {"at the end"}}
	}
	resp, err := client(s).Do(r)
	if err != nil {
		return answerOf{Fault: fault(err, s)}
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Fatalf("the protocol is %s", resp.Proto)
	}
	data, err := io.ReadAll(resp.Body)
	a := answerOf{Status: resp.StatusCode, Header: resp.Header, Trailer: resp.Trailer, Body: string(data), Length: resp.ContentLength}
	if err != nil {
		a.Fault = fault(err, s)
	}
	if a.Header.Get("Date") == "" {
		t.Error("the answer has no date")
	}
	a.Header.Del("Date")
	return a
}

// fault returns an error without what differs between two servers.
func fault(err error, s *served) string {
	text := strings.ReplaceAll(err.Error(), s.URL, "")
	if i := strings.Index(text, "stream ID "); i >= 0 {
		_, rest, _ := strings.Cut(text[i:], ";")
		text = text[:i] + rest
	}
	return text
}

// dial opens a connection for HTTP/2.
func dial(t *testing.T, s *served) *tls.Conn {
	t.Helper()
	config := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2"}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: config}
	c, err := d.DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.(*tls.Conn)
}
