package aggregator_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// Requests share a connection. One that the extension server has closed in the meantime is replaced, also for writes: nothing was
// sent over it.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	var posts atomic.Int64
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/things", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost {
			posts.Add(1)
		}
		fmt.Fprintf(w, "%d %s", r.ProtoMajor, body)
	})
	e := served(t, s, mux)
	before := e.connections.Load()
	for n := range 20 {
		resp, body := ask(t, s, "POST", "/apis/ext.test/v1/things", "text/plain", "x")
		for resp.StatusCode == http.StatusServiceUnavailable && t.Context().Err() == nil { // a check was cut off, and comes again
			resp, body = ask(t, s, "POST", "/apis/ext.test/v1/things", "text/plain", "x")
		}
		if resp.StatusCode != 200 || body != "2 x" {
			t.Errorf("%d: %d %s", n, resp.StatusCode, body)
		}
		if n%5 == 4 {
			e.server.CloseClientConnections()
		}
	}
	if posts.Load() != 20 || e.connections.Load()-before > 12 { // those of the checks are among them
		t.Errorf("%d posts over %d connections", posts.Load(), e.connections.Load()-before)
	}
}

// Answers of every form arrive as they were sent, and the connection serves the next request.
func TestFormsOfAnswers(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	large := strings.Repeat("0123456789", 50_000)
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/empty", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/apis/ext.test/v1/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) })
	mux.HandleFunc("/apis/ext.test/v1/length", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(large)))
		_, _ = io.WriteString(w, large)
	})
	mux.HandleFunc("/apis/ext.test/v1/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d", len(body))
	})
	mux.HandleFunc("/apis/ext.test/v1/close", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	served(t, s, mux)
	for range 3 {
		for _, c := range []struct {
			method, path, body string
			code               int
			want               string
		}{
			{"GET", "empty", "", 204, ""}, {"GET", "large", "", 200, large}, {"GET", "length", "", 200, large}, {"HEAD", "length", "", 200, ""},
			{"POST", "echo", large, 200, "500000"}, {"POST", "echo", "abc", 200, "3"}, {"DELETE", "echo", "abc", 200, "3"},
			{"PUT", "echo", "", 200, "0"}, {"GET", "close", "", 200, ""}, {"GET", "nosuch", "", 404, "404 page not found\n"},
		} {
			resp, body := ask(t, s, c.method, "/apis/ext.test/v1/"+c.path, "text/plain", c.body)
			if resp.StatusCode != c.code || body != c.want {
				t.Errorf("%s %s: %d, %d bytes", c.method, c.path, resp.StatusCode, len(body))
			}
			if c.path == "length" && resp.Header.Get("Content-Length") != "500000" {
				t.Errorf("%s: the length is %q", c.method, resp.Header.Get("Content-Length"))
			}
		}
	}
}

// An informational answer passes, and so does what follows the body.
func TestInformationalAnswers(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Listen())
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/hints", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "done")
		w.Header().Set("X-Sum", "7")
	})
	served(t, s, mux)
	rt, err := restTransport(s)
	if err != nil {
		t.Fatal(err)
	}
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, " ", h.Get("Link")))
		return nil
	}})
	req, err := http.NewRequestWithContext(ctx, "GET", "https://"+s.Address()+"/apis/ext.test/v1/hints", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "done" || fmt.Sprint(hints) != "[103 </style.css>]" || resp.Header.Get("Link") != "" {
		t.Errorf("%q, hints %q, header %v", body, hints, resp.Header)
	}
	if resp.Trailer.Get("X-Sum") != "7" {
		t.Errorf("trailers %v", resp.Trailer)
	}
}

// An extension server that speaks HTTP/1.1 only is reached too.
func TestHTTP1Only(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %s", r.ProtoMajor, body)
	})
	servedHTTP1(t, s, mux)
	for _, body := range []string{"x", "y"} {
		if resp, answer := ask(t, s, "POST", "/apis/ext.test/v1/echo", "text/plain", body); resp.StatusCode != 200 || answer != "1 "+body {
			t.Errorf("%d %s", resp.StatusCode, answer)
		}
	}
}

// What a name or header says cannot become another header or another request.
func TestHeadersCannotBeSplit(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	var asked atomic.Int64
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/things", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("X-Remote-User"), "system:") { // controllers list them too
			asked.Add(1)
		}
		fmt.Fprint(w, r.Header.Get("X-Evil"), r.Header["X-Remote-Group"])
	})
	served(t, s, mux)
	evil := "jane\r\nX-Evil: 1\r\nX-Remote-Group: system:masters"
	for name, u := range map[string]*user.DefaultInfo{
		"name": {Name: evil}, "group": {Name: "jane", Groups: []string{evil}}, "extra": {Name: "jane", Extra: map[string][]string{"a": {evil}}}, "uid": {Name: "jane", UID: evil},
		"header": {Name: "jane"},
	} {
		u.Groups = append(u.Groups, "system:masters")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kanzen/apis/ext.test/v1/things", nil)
		if err != nil {
			t.Fatal(err)
		}
		if name == "header" {
			req.Header["X-Other"] = []string{evil}
		}
		resp, err := s.Transport(u).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode < 400 || asked.Load() > 0 {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
}

// An extension server that sends more than its answer does not answer the next request with it.
func TestUnaskedAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, more string }{
		{"at once", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale"}, {"switching", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := kanzentest.Start(t)
			var n atomic.Int64
			mux := things("ext.test", "v1")
			mux.HandleFunc("/apis/ext.test/v1/more", func(w http.ResponseWriter, _ *http.Request) {
				conn, buffered, err := http.NewResponseController(w).Hijack()
				if err != nil {
					return
				}
				defer conn.Close()
				answer := fmt.Sprintf("answer %d", n.Add(1))
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(answer), answer, c.more)
				_, _ = http.ReadRequest(buffered.Reader) // the next one, if there is any on this connection
			})
			servedHTTP1(t, s, mux)
			for want := 1; want <= 3; want++ {
				if code, body := get(t, s, "/apis/ext.test/v1/more"); code != 200 || body != fmt.Sprintf("answer %d", want) {
					t.Errorf("%d %s, want answer %d", code, body, want)
				}
			}
		})
	}
}

// A deadline ends a request that the extension server does not answer, with the answer that says so.
func TestDeadlineOfProxiedRequest(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Listen())
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/things", hang)
	served(t, s, mux)
	conn := dialAdmin(t, s)
	defer conn.Close()
	fmt.Fprint(conn, "GET /apis/ext.test/v1/things?timeout=200ms HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusGatewayTimeout {
		t.Error(resp.Status)
	}
}
