package chain

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

// These tests put an HTTP server with the chain behind connections in memory,
// which hold nothing: what is written waits until it is read. Time is the
// bubble's, so minutes pass at once, and at their exact length.

// pipes is a listener whose connections are made by dial.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	ended chan time.Time // when handlers returned
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(t *testing.T) net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// inBubble serves a handler behind the chain and runs a test against it. The
// pipes tell when the handler returned.
func inBubble(t *testing.T, h http.HandlerFunc, test func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{}), ended: make(chan time.Time, 100)}
		c := config(func(w http.ResponseWriter, r *http.Request) {
			defer func() { p.ended <- time.Now() }()
			h(w, r)
		})
		c.Clock = clock.RealClock{}
		srv := &http.Server{Handler: New(c), IdleTimeout: time.Hour, Protocols: new(http.Protocols)}
		srv.Protocols.SetHTTP1(true)
		srv.Protocols.SetUnencryptedHTTP2(true)
		served := make(chan error)
		go func() { served <- srv.Serve(p) }()
		defer func() {
			_ = srv.Close()
			<-served
			time.Sleep(time.Minute) // connections linger
		}()
		test(t, p)
	})
}

const fromAlice = " HTTP/1.1\r\nHost: x\r\nAuthorization: alice\r\n"

// get sends a request without a body and reads the answer.
func get(t *testing.T, conn net.Conn, from *bufio.Reader, path string) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(conn, "GET "+path+fromAlice+"\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// reads is a handler that reads its body, and returns without an answer where
// that fails.
func reads(w http.ResponseWriter, r *http.Request) {
	if _, err := io.ReadAll(r.Body); err == nil {
		ok(w, r)
	}
}

func TestHeldBodyHTTP1(t *testing.T) {
	for name, trickle := range map[string]bool{"held": false, "trickled": true} {
		for _, announced := range []string{"Content-Length: 1000000", "Content-Length: 1000", "Transfer-Encoding: chunked"} {
			t.Run(name+" "+announced, func(t *testing.T) {
				inBubble(t, reads, func(t *testing.T, p *pipes) {
					conn, began := p.dial(t), time.Now()
					if _, err := io.WriteString(conn, "POST /api"+fromAlice+announced+"\r\n\r\n"); err != nil {
						t.Fatal(err)
					}
					if trickle {
						go func() {
							for {
								time.Sleep(time.Second)
								if _, err := io.WriteString(conn, "1\r\na\r\n"); err != nil {
									return
								}
							}
						}()
					}
					resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						t.Fatal(err)
					}
					body, _ := io.ReadAll(resp.Body)
					if resp.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(body), `"reason":"Timeout"`) || !resp.Close {
						t.Errorf("%s, close %v: %s", resp.Status, resp.Close, body)
					}
					if took := (<-p.ended).Sub(began); took != time.Minute {
						t.Errorf("the handler was busy for %s", took)
					}
				})
			})
		}
	}
}

// floods is a handler that writes an answer without end until it is told that
// nobody reads.
func floods(w http.ResponseWriter, _ *http.Request) {
	for {
		if _, err := w.Write(make([]byte, 100<<10)); err != nil {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
	}
}

func TestUnreadAnswerHTTP1(t *testing.T) {
	inBubble(t, floods, func(t *testing.T, p *pipes) {
		conn, began := p.dial(t), time.Now()
		if _, err := io.WriteString(conn, "GET /api?timeout=7s"+fromAlice+"\r\n"); err != nil {
			t.Fatal(err)
		}
		if took := (<-p.ended).Sub(began); took != 7*time.Second {
			t.Errorf("the handler was busy for %s", took)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil { // to its end
			t.Error(err)
		}
	})
}

// An answer that is written in time to a slow client, and one that ends late,
// are cut off at the deadline: a list is whole or broken.
func TestAnswerIsCutOff(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		synctest.Wait() // for the interruption
		_, _ = io.WriteString(w, "rest")
	}, func(t *testing.T, p *pipes) {
		conn := p.dial(t)
		if _, err := io.WriteString(conn, "GET /api"+fromAlice+"\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "half" {
			t.Errorf("%q, %v", body, err)
		}
	})
}

// Deadlines are those of one request: the connection goes on.
func TestKeepAliveAfterDeadlines(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
		if err != nil {
			t.Error(err)
		}
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
			if !request.TimedOut(r.Context()) {
				t.Errorf("%s: %v", r.URL, r.Context().Err())
			}
			return
		}
		ok(w, r)
	}, func(t *testing.T, p *pipes) {
		conn := p.dial(t)
		from := bufio.NewReader(conn)
		for _, c := range []struct {
			path string
			code int
		}{
			{"/api?wait=50s", 200},
			{"/api?wait=50s", 200},
			{"/api?wait=50s&timeout=1s", 504},
			{"/api?wait=0s", 200},
			{"/debug/pprof/profile?wait=30m", 200},
			{"/api/v1/pods?watch=1&wait=30m", 200},
			{"/api?wait=70s", 504},
			{"/api?wait=50s", 200},
		} {
			time.Sleep(10 * time.Minute) // idle
			resp, body := get(t, conn, from, c.path)
			if resp.StatusCode != c.code || c.code == 200 && body != "ok" || resp.Close {
				t.Fatalf("%s: %s %q, close %v", c.path, resp.Status, body, resp.Close)
			}
		}
		// With a body that was read, the connection is not used again after a 504.
		if _, err := io.WriteString(conn, "POST /api?wait=50s&timeout=1s"+fromAlice+"Content-Length: 2\r\n\r\n{}"); err != nil {
			t.Fatal(err)
		}
		if resp, err := http.ReadResponse(from, nil); err != nil || resp.StatusCode != 504 || !resp.Close {
			t.Errorf("%+v, %v", resp, err)
		}
	})
}

// A watch lasts, also where nothing is sent for long, until its client does not
// take what it is sent.
func TestUnreadWatch(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := io.WriteString(w, strings.Repeat("event\n", 50_000)); err != nil {
				return
			}
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-time.After(time.Hour):
			case <-r.Context().Done():
				return
			}
		}
	}, func(t *testing.T, p *pipes) {
		conn := p.dial(t)
		if _, err := io.WriteString(conn, "GET /api/v1/pods?watch=1"+fromAlice+"\r\n"); err != nil {
			t.Fatal(err)
		}
		// A client that reads slowly, but some of it in each minute, is served.
		began := time.Now()
		for range 10 {
			if _, err := io.CopyN(io.Discard, conn, piece); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Second)
		}
		if _, err := io.CopyN(io.Discard, conn, 3*300_000); err != nil || time.Since(began) < time.Hour {
			t.Fatal(err)
		}
		stopped := time.Now()
		if took := (<-p.ended).Sub(stopped); took < time.Minute || took > 2*time.Hour {
			t.Errorf("it ended after %s", took)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Error(err)
		}
	})
}

// The same for a watch that announces a body, which HTTP/1.1 waits for before it answers.
func TestWatchWithHeldBody(t *testing.T) {
	inBubble(t, floods, func(t *testing.T, p *pipes) {
		conn, began := p.dial(t), time.Now()
		if _, err := io.WriteString(conn, "GET /api/v1/pods?watch=1"+fromAlice+"Content-Length: 1000\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if took := (<-p.ended).Sub(began); took != time.Minute {
			t.Errorf("it ended after %s", took)
		}
	})
}

// A hijacked connection has no deadlines but those for each write of a watch.
func TestHijackedWatch(t *testing.T) {
	inBubble(t, func(w http.ResponseWriter, r *http.Request) {
		conn, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, err := buffer.ReadString('\n'); err != nil { // comes late
			t.Error(err)
		}
		for range 3 {
			if _, err := buffer.WriteString("event\n"); err != nil || buffer.Flush() != nil {
				return
			}
			time.Sleep(time.Hour)
		}
	}, func(t *testing.T, p *pipes) {
		conn := p.dial(t)
		if _, err := io.WriteString(conn, "GET /api/v1/pods?watch=1"+fromAlice+"Upgrade: x\r\nConnection: upgrade\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := io.WriteString(conn, "go\n"); err != nil {
			t.Fatal(err)
		}
		from := bufio.NewReader(conn)
		for range 2 {
			if line, err := from.ReadString('\n'); err != nil || line != "event\n" {
				t.Fatalf("%q, %v", line, err)
			}
		}
		read := time.Now() // the third is not read
		if took := (<-p.ended).Sub(read); took != time.Hour+time.Minute {
			t.Errorf("it ended after %s", took)
		}
	})
}

// raw is an HTTP/2 client made of frames.
type raw struct {
	*http2.Framer
	header bytes.Buffer
	encode *hpack.Encoder
	do     chan func() // what is to be written
}

// speak opens an HTTP/2 connection on which nothing may be sent as data.
func speak(t *testing.T, p *pipes) *raw {
	t.Helper()
	conn := p.dial(t)
	f := &raw{Framer: http2.NewFramer(conn, conn)}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.encode = hpack.NewEncoder(&f.header)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f.do = make(chan func())
	t.Cleanup(func() { close(f.do) })
	go func() { // nothing is buffered: who writes must go on reading
		for write := range f.do {
			write()
		}
	}()
	f.do <- func() { _ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}) }
	return f
}

// ask opens a stream, whose body is left open where it has one.
func (f *raw) ask(t *testing.T, id uint32, method, path string) {
	t.Helper()
	f.header.Reset()
	for _, h := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", "x"}, {":path", path}, {"authorization", "alice"}} {
		_ = f.encode.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	block := bytes.Clone(f.header.Bytes())
	go func() {
		f.do <- func() {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: method == "GET", EndHeaders: true})
		}
	}()
}

// ending reads until a stream ends, and tells how: its status and how it was reset.
func (f *raw) ending(t *testing.T, id uint32) (status, reset string) {
	t.Helper()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			status = frame.PseudoValue("status")
			if frame.StreamEnded() {
				return status, ""
			}
		case *http2.DataFrame:
			if frame.StreamEnded() {
				return status, ""
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == id {
				return status, frame.ErrCode.String()
			}
		}
	}
}

func TestHTTP2Deadlines(t *testing.T) {
	for _, c := range []struct {
		name, method, path string
		handler            http.HandlerFunc
		status, reset      string
		after              time.Duration
	}{
		{"a body that does not come", "POST", "/api", reads, "504", "", time.Minute},
		{"an answer that may not be sent", "GET", "/api?timeout=3s", floods, "200", "INTERNAL_ERROR", 3 * time.Second},
		{"a watch that may not be sent", "GET", "/api/v1/pods?watch=1", floods, "200", "INTERNAL_ERROR", time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, c.handler, func(t *testing.T, p *pipes) {
				f, began := speak(t, p), time.Now()
				f.ask(t, 1, c.method, c.path)
				status, reset := "", ""
				if c.status == "504" { // its text may not be sent either
					for status == "" {
						frame, err := f.ReadFrame()
						if err != nil {
							t.Fatal(err)
						}
						if h, ok := frame.(*http2.MetaHeadersFrame); ok {
							status = h.PseudoValue("status")
						}
					}
				} else {
					status, reset = f.ending(t, 1)
				}
				if took := (<-p.ended).Sub(began); took != c.after || status != c.status || reset != c.reset {
					t.Errorf("after %s: %s, reset %q", took, status, reset)
				}
				if c.status == "504" {
					if _, reset := f.ending(t, 1); reset != "INTERNAL_ERROR" || time.Since(began) != c.after+Grace {
						t.Errorf("after %s: reset %q", time.Since(began), reset)
					}
				}
			})
		})
	}
}

// A handler that is done right at the deadline, or panics there, is through with
// its writer: nobody touches it any more.
func TestInterruptAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := range 200 {
			h := Recover(discard(), nil, WriteStatus).Then(Info(longProfiles, false, extensions.Set{}).Then(Deadline(time.Second, clock.RealClock{}, WriteStatus, WriteStatus).Then(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				time.Sleep(time.Second)
				if n%2 == 0 {
					panic("x")
				}
			}))))
			w := &once{t: t}
			r, _ := http.NewRequestWithContext(context.Background(), "POST", "/api", strings.NewReader("{}"))
			h.ServeHTTP(w, r)
			w.done = true
			synctest.Wait()
		}
	})
}

// A handler that answers by itself because its deadline has passed has Grace for that as well, even if it returns before the
// interruption at the deadline has come: whoever does not read such an answer would keep its stream otherwise.
func TestGraceOfOwnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Info(longProfiles, false, extensions.Set{}).Then(Deadline(time.Second, clock.RealClock{}, WriteStatus, WriteStatus).Then(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.WriteHeader(http.StatusGatewayTimeout)
		})))
		for range 2000 { // all at once, so that some interruptions come late
			go func() {
				w := &once{t: t}
				r, _ := http.NewRequestWithContext(context.Background(), "GET", "/api", nil)
				began := time.Now()
				h.ServeHTTP(w, r)
				if got := w.until.Sub(began); got != time.Second+Grace {
					t.Errorf("the answer may be written for %s", got)
				}
			}()
		}
		time.Sleep(time.Minute)
	})
}

// once is a writer that may not be used when its request is over.
type once struct {
	t      *testing.T
	header http.Header
	until  time.Time // the last write deadline
	done   bool
}

func (w *once) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}
func (w *once) WriteHeader(int)             {}
func (w *once) Write(p []byte) (int, error) { return len(p), nil }
func (w *once) SetReadDeadline(time.Time) error {
	return w.use("read")
}
func (w *once) SetWriteDeadline(until time.Time) error {
	w.until = until
	return w.use("write")
}
func (w *once) use(what string) error {
	if w.done {
		w.t.Errorf("a %s deadline after the end", what)
	}
	return fmt.Errorf("%w", http.ErrNotSupported)
}
