package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/process/config"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// listening starts a server on a port of the loopback interface.
func listening(t *testing.T, change func(*config.Config)) *server {
	return startWith(t, func(c *config.Config) {
		c.NoListener, c.SecurePort = false, 0
		change(c)
	})
}

// dial opens a connection to a server by one of its protocols.
func dial(t *testing.T, s *server, protocol string) *tls.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", s.listener.Address(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// healthy checks that the server still serves other clients.
func healthy(t *testing.T, s *server) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + s.listener.Address() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("health: %s", resp.Status)
	}
}

// status sends raw bytes, which may not be a request, and returns the code of
// the answer, 0 if the connection is closed without one.
func status(t *testing.T, s *server, raw string) int {
	t.Helper()
	conn := dial(t, s, "http/1.1")
	if _, err := io.WriteString(conn, raw); err != nil {
		return 0 // closed while we were writing
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// A request with two contradicting lengths may be one request to a proxy and
// two to the server behind it.
func TestRequestSmuggling(t *testing.T) {
	s := listening(t, func(*config.Config) {})
	const smuggled = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, raw := range map[string]string{
		"two lengths":          "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\nhello" + smuggled,
		"a length list":        "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 0\r\n\r\nhello" + smuggled,
		"a length of no kind":  "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello" + smuggled,
		"an encoding unknown":  "POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + smuggled,
		"a space in a name":    "POST /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"no host":              "GET /livez HTTP/1.1\r\n\r\n",
		"a line feed in one":   "GET /livez HTTP/1.1\r\nHost: x\r\nX-Remote-User: a\nb\r\n\r\n",
		"a NUL in a header":    "GET /livez HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
		"a method of no kind":  "GE\x00T /livez HTTP/1.1\r\nHost: x\r\n\r\n",
		"a version of no kind": "GET /livez HTTP/9.9\r\nHost: x\r\n\r\n",
	} {
		if code := status(t, s, raw); code != 0 && code < 400 {
			t.Errorf("%s: %d", name, code)
		}
	}
	// With both headers the chunks count (RFC 9112, 6.3): the rest is a second
	// request, and an anonymous one, whatever headers it has.
	conn := dial(t, s, "http/1.1")
	if _, err := io.WriteString(conn, "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
		"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Remote-User: admin\r\nX-Remote-Group: system:masters\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if first, second := bytes.Count(text, []byte("HTTP/1.1 403 ")), bytes.Count(text, []byte("HTTP/1.1 401 ")); err != nil || first != 1 || second != 1 {
		t.Errorf("(%v): %q", err, text)
	}
	healthy(t, s)
}

func TestOversizedHeaders(t *testing.T) {
	s := listening(t, func(*config.Config) {})
	for name, raw := range map[string]string{
		"one header": "GET /livez HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 2<<20) + "\r\n\r\n",
		"many":       "GET /livez HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", 60000) + "\r\n",
		"a path":     "GET /" + strings.Repeat("a", 2<<20) + " HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if code := status(t, s, raw); code != 0 && code != http.StatusRequestHeaderFieldsTooLarge && code != http.StatusRequestURITooLong {
			t.Errorf("%s: %d", name, code)
		}
	}
	healthy(t, s)
}

// Clients that send a header a byte at a time do not affect others, and the
// server's settings bound the time of their connections.
func TestSlowLoris(t *testing.T) {
	s := listening(t, func(*config.Config) {})
	srv := s.listener
	if srv.ReadHeaderTimeout <= 0 || srv.ReadHeaderTimeout > time.Minute || srv.IdleTimeout <= 0 || srv.MaxHeaderBytes <= 0 {
		t.Errorf("%s, %s, %d bytes", srv.ReadHeaderTimeout, srv.IdleTimeout, srv.MaxHeaderBytes)
	}
	for range 200 {
		if _, err := io.WriteString(dial(t, s, "http/1.1"), "GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: a"); err != nil {
			t.Fatal(err)
		}
	}
	healthy(t, s)
}

// frames speaks HTTP/2 by hand.
type frames struct {
	*http2.Framer
	conn   net.Conn
	header bytes.Buffer
	encode *hpack.Encoder
	token  string // empty: anonymous
	next   uint32
}

func speakHTTP2(t *testing.T, s *server) *frames {
	conn := dial(t, s, "h2")
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := &frames{Framer: http2.NewFramer(conn, conn), conn: conn, next: 1}
	f.encode = hpack.NewEncoder(&f.header)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *frames) get(path string) (id uint32, err error) {
	f.header.Reset()
	fields := [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", path}}
	if f.token != "" {
		fields = append(fields, [2]string{"authorization", "Bearer " + f.token})
	}
	for _, h := range fields {
		if err := f.encode.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return 0, err
		}
	}
	id, f.next = f.next, f.next+2
	return id, f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.header.Bytes(), EndStream: true, EndHeaders: true})
}

// An authenticated client, which therefore keeps its connection, opens streams
// and resets them at once. The server closes the connection or keeps pace: the
// number of requests under way stays bounded, and it answers later requests.
func TestRapidReset(t *testing.T) {
	s := listening(t, func(*config.Config) {})
	f := speakHTTP2(t, s)
	f.token = accountToken(t, s)
	go func() {
		for range 20000 {
			id, err := f.get("/api/v1/namespaces/default/configmaps")
			if err != nil || f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				return // the server has closed the connection, which is allowed
			}
		}
		_ = f.WritePing(false, [8]byte{1})
	}()
	for {
		if n := s.ending.InFlight.Now(); n > 1000 {
			t.Fatalf("%d requests in flight", n)
		}
		frame, err := f.ReadFrame()
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			t.Fatal("the connection is neither closed nor answered")
		}
		if err != nil {
			break
		}
		if _, ok := frame.(*http2.GoAwayFrame); ok {
			break
		}
		if _, ok := frame.(*http2.PingFrame); ok {
			break
		}
	}
	healthy(t, s)
}

// An unauthenticated client gets one request per HTTP/2 connection, so that
// each request costs it a handshake.
func TestStrangersGetOneRequestAConnection(t *testing.T) {
	s := listening(t, func(*config.Config) {})
	f := speakHTTP2(t, s)
	if _, err := f.get("/livez"); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatalf("no GOAWAY before %v", err)
		}
		if _, ok := frame.(*http2.GoAwayFrame); ok {
			return
		}
	}
}

// Paths that a proxy, the authorizer and the router could read differently.
func TestPathTricks(t *testing.T) {
	s := listening(t, func(*config.Config) {})
	for _, path := range []string{"/livez/../metrics", "/livez/..%2fmetrics", "//metrics", "/livez//../metrics", "/%6detrics", "/livez%2f..%2fmetrics",
		"/api/v1/namespaces/default/pods/..%2f..%2fsecrets", "/apis//v1/secrets", "/api/v1//secrets", "/api/v1/namespaces//secrets/x", "/livez;/metrics", "/livez%00/metrics"} {
		code := status(t, s, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path))
		if code == http.StatusOK {
			t.Errorf("%s is served to anybody", path)
		}
	}
}
