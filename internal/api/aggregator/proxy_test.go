package aggregator_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// served registers an extension server of ext.test/v1 and waits until requests are passed on.
func served(t testing.TB, s *kanzentest.Server, mux *http.ServeMux) *extension {
	t.Helper()
	e := newExtension(t, s, "ext", mux)
	e.serve(t, s)
	return e
}

// servedHTTP1 is served by one that speaks HTTP/1.1 only.
func servedHTTP1(t testing.TB, s *kanzentest.Server, mux *http.ServeMux) {
	t.Helper()
	e := newExtension(t, s, "ext", mux)
	e.http1Only.Store(true)
	e.serve(t, s)
}

// What an extension server answers cannot lead clients elsewhere, fill the memory, or pass for whole when it is cut off.
func TestHostileAnswers(t *testing.T) {
	s := kanzentest.Start(t)
	mux := things("ext.test", "v1")
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", to); w.WriteHeader(307) }
	}
	mux.HandleFunc("/apis/ext.test/v1/elsewhere", redirect("https://elsewhere.test/"))
	mux.HandleFunc("/apis/ext.test/v1/here", redirect("/api/v1/secrets"))
	mux.HandleFunc("/apis/ext.test/v1/header", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Big", strings.Repeat("x", 2<<20)) })
	mux.HandleFunc("/apis/ext.test/v1/cors", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Access-Control-Allow-Origin", "*") })
	mux.HandleFunc("/apis/ext.test/v1/cut", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	served(t, s, mux)
	for _, path := range []string{"elsewhere", "here"} {
		resp, body := ask(t, s, "GET", "/apis/ext.test/v1/"+path, "", "")
		if resp.StatusCode != 502 || resp.Header.Get("Location") != "" || body != "the backend attempted to redirect this request, which is not permitted" {
			t.Errorf("%s: %d %q %s", path, resp.StatusCode, resp.Header, body)
		}
	}
	if code, body := get(t, s, "/apis/ext.test/v1/header"); code != 503 || len(body) > 1000 {
		t.Errorf("%d, %d bytes", code, len(body))
	}
	if resp, _ := ask(t, s, "GET", "/apis/ext.test/v1/cors", "", ""); resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("the extension server says which origins may use this server")
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://kanzen/apis/ext.test/v1/cut", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Config().Transport.RoundTrip(req)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Error("an answer that was cut off passes for whole")
	}
}

// A path that the extension server could read as another one is not passed on.
func TestPathsThatMeanSomethingElse(t *testing.T) {
	s := kanzentest.Start(t)
	asked := make(chan string, 10)
	mux := http.NewServeMux()
	served(t, s, things("ext.test", "v1")).handler.Store(handler(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Test") != "" {
			asked <- r.URL.EscapedPath()
		}
		mux.ServeHTTP(w, r)
	}))
	for path, want := range map[string]string{
		"/apis/ext.test/v1/namespaces/a/../b/things": "", "/apis/ext.test/v1/namespaces/a%2f..%2f..%2fthings": "", "/apis/ext.test/v1//things": "",
		"/apis/ext.test/v1/./things": "", "/apis/ext.test/v1/namespaces/a/things/%2e%2e": "",
		"/apis/ext.test/v1/namespaces/a%2Fthings": "/apis/ext.test/v1/namespaces/a/things", "/apis/ext.test/v1/things/x%20y": "/apis/ext.test/v1/things/x%20y",
	} {
		u, err := url.Parse("http://kanzen" + path)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Config().Transport.RoundTrip((&http.Request{Method: "GET", URL: u, Header: http.Header{"X-Test": {"1"}}}).WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		got := ""
		select {
		case got = <-asked:
		default:
		}
		if got != want {
			t.Errorf("%s leads to %q, want %q", path, got, want)
		}
	}
}

func handler(f http.HandlerFunc) *http.Handler {
	h := http.Handler(f)
	return &h
}

// A connection is handed over if the extension server agrees, and to no protocol in which the client could go on to speak
// in the name of the front proxy. If it refuses, the connection of the client stays this server's.
func TestUpgrades(t *testing.T) {
	s := kanzentest.Start(t, kanzentest.Listen())
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/stream", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		line, _ := buffered.ReadString('\n')
		fmt.Fprintf(conn, "%s says %s", r.Header.Get("X-Remote-User"), line)
	})
	mux.HandleFunc("/apis/ext.test/v1/refuse", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	served(t, s, mux)
	for _, c := range []struct{ path, protocol, want string }{
		{"stream", "SPDY/3.1", "101 kubernetes-admin says hello"}, {"stream", "websocket", "101 kubernetes-admin says hello"},
		{"stream", "h2c", "400"}, {"stream", "SPDY/3.1, h2c", "400"}, {"stream", "TLS/1.2, HTTP/1.1", "400"}, {"refuse", "SPDY/3.1", "403"},
	} {
		conn := dialAdmin(t, s)
		fmt.Fprintf(conn, "GET /apis/ext.test/v1/%s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", c.path, c.protocol)
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(resp.StatusCode)
		if resp.StatusCode == http.StatusSwitchingProtocols {
			fmt.Fprint(conn, "hello\n")
			line, _ := r.ReadString('\n')
			got += " " + strings.TrimSpace(line)
		} else {
			_, _ = io.Copy(io.Discard, resp.Body)
			// What comes next on the connection is a request to this server, by its own rules.
			fmt.Fprint(conn, "GET /api/v1/nosuch HTTP/1.1\r\nHost: x\r\nX-Remote-User: root\r\n\r\n")
			if next, err := http.ReadResponse(r, nil); err == nil && next.StatusCode != 404 {
				t.Errorf("%+v: the next request: %d", c, next.StatusCode)
			}
		}
		_ = resp.Body.Close()
		_ = conn.Close()
		if got != c.want {
			t.Errorf("%s to %s: %q, want %q", c.protocol, c.path, got, c.want)
		}
	}
}

// dialAdmin connects to the server as its administrator.
func dialAdmin(t *testing.T, s *kanzentest.Server) *tls.Conn {
	t.Helper()
	f := s.SocketConfig().TLSClientConfig
	cert, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", s.Address(), &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A request that the extension server has received is not sent twice.
func TestNothingIsSentTwice(t *testing.T) {
	s := kanzentest.Start(t)
	posts := make(chan string, 10)
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/things", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posts <- string(body)
		panic(http.ErrAbortHandler)
	})
	served(t, s, mux)
	for method, body := range map[string]string{"POST": "x", "DELETE": "", "PUT": ""} {
		if resp, answer := ask(t, s, method, "/apis/ext.test/v1/things", "application/json", body); resp.StatusCode != 503 {
			t.Errorf("%s: %d %s", method, resp.StatusCode, answer)
		}
		<-posts
		if len(posts) > 0 {
			t.Errorf("%s was sent twice", method)
		}
	}
}

// A request ends with its client, on both sides.
func TestCancelledRequest(t *testing.T) {
	s := kanzentest.Start(t)
	begun, ended := make(chan struct{}), make(chan struct{})
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/slow", func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(ended)
	})
	served(t, s, mux)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", "http://kanzen/apis/ext.test/v1/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-begun
		cancel()
	}()
	if resp, err := s.Config().Transport.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
		t.Error("there is an answer")
	}
	<-ended
}
