package upgrade

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// backendWith accepts one connection, reads the head of a request and answers with a text. What comes after is told when
// the connection has ended.
func backendWith(t *testing.T, answer string) (addr string, after <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	got := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err != nil {
			got <- err.Error()
			return
		}
		_, _ = io.WriteString(c, answer)
		rest, _ := io.ReadAll(r)
		got <- string(rest)
	}()
	return l.Addr().String(), got
}

// front serves upgrades to a backend.
func front(t *testing.T, addr string, p *Proxy) *httptest.Server {
	t.Helper()
	if p.Dialer == nil {
		p.Dialer = &Dialer{}
	}
	if p.Answer == 0 {
		p.Answer = time.Minute
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := &url.URL{Scheme: "http", Host: addr, Path: "/there"}
		if err := p.Serve(w, r, Outgoing(r, u)); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// ask sends an upgrade request, and more after it.
func ask(t *testing.T, s *httptest.Server, more string) (*net.TCPConn, *bufio.Reader, *http.Response) {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	fmt.Fprintf(c, "GET /here HTTP/1.1\r\nHost: front\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n%s", more)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), r, resp
}

// CVE-2018-1002105: what a client sends after an upgrade that failed does not come to the backend.
func TestFailedUpgradeIsTheEnd(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nX-Own: 1\r\n\r\nno":                            "403 no",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok":                                               "502 invalid upgrade response: status code 200\n",
		"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n":         "502 invalid upgrade response: status code 302\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n":                        "502 invalid upgrade response: status code 100\n",
		"HTTP/1.1 500 Internal Server Error\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nxyz": "500 x",
		"SSH-2.0-x\r\n\r\n": "502 malformed HTTP response \"SSH-2.0-x\"\n",
		"HTTP/1.1 403 Forbidden\r\nX-Long: " + strings.Repeat("x", 2<<20) + "\r\n\r\n": "502 the head of the backend's answer is larger than 1048576 bytes\n",
	} {
		addr, after := backendWith(t, answer)
		_, _, resp := ask(t, front(t, addr, &Proxy{}), "GET /secret HTTP/1.1\r\nHost: backend\r\n\r\n")
		body, _ := io.ReadAll(resp.Body)
		if got := fmt.Sprintf("%d %s", resp.StatusCode, body); got != want {
			t.Errorf("%.40q: %q", answer, got)
		}
		if rest := <-after; rest != "" {
			t.Errorf("%.40q: the backend got %q", answer, rest)
		}
		if resp.StatusCode < 500 && !resp.Close {
			t.Errorf("%.40q: the connection is kept", answer)
		}
	}
}

func TestRefusalIsBounded(t *testing.T) {
	addr, _ := backendWith(t, "HTTP/1.1 500 x\r\nContent-Length: 9999999\r\n\r\n"+strings.Repeat("x", 9999999))
	_, _, resp := ask(t, front(t, addr, &Proxy{}), "")
	if n, _ := io.Copy(io.Discard, resp.Body); n != maxRefusal {
		t.Errorf("%d bytes", n)
	}
}

func TestSplice(t *testing.T) {
	addr, after := backendWith(t, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\nX-Own: 1\r\n\r\nfirst")
	c, r, resp := ask(t, front(t, addr, &Proxy{}), "early ")
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("X-Own") != "1" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	first := make([]byte, 5)
	if _, err := io.ReadFull(r, first); err != nil || string(first) != "first" {
		t.Errorf("%q, %v", first, err)
	}
	big := bytes.Repeat([]byte("0123456789"), 100_000)
	_, _ = c.Write(big)
	_ = c.CloseWrite()
	if got := <-after; got != "early "+string(big) {
		t.Errorf("the backend got %d bytes", len(got))
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) != 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestSilentBackend(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := &Dialer{}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String(), nil)
	if _, err := d.Send(req, time.Millisecond); !apierrors.IsTimeout(err) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
		}
		if c, err := l.Accept(); err == nil {
			cancel()
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	if _, err := d.Send(req.WithContext(ctx), time.Hour); err == nil || apierrors.IsTimeout(err) {
		t.Errorf("%v", err)
	}
}

// half is a connection in memory with halves.
type half struct {
	net.Conn
	out net.Conn // what is written
}

// link is a connection in memory: two pipes, one for each direction.
func link() (a, b *half) {
	r1, w1 := net.Pipe()
	r2, w2 := net.Pipe()
	return &half{Conn: r1, out: w2}, &half{Conn: r2, out: w1}
}

func (h *half) Write(p []byte) (int, error) { return h.out.Write(p) }
func (h *half) CloseWrite() error           { return h.out.Close() }
func (h *half) Close() error                { return errors.Join(h.Conn.Close(), h.out.Close()) }

// A client that is gone ends the connection soon, even if the backend neither says anything nor ends.
func TestGoneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, front := link()
		back, backend := link()
		began, done := time.Now(), make(chan time.Duration)
		go func() {
			Splice(t.Context(), front, back, 0)
			done <- time.Since(began)
		}()
		time.Sleep(time.Hour) // idle is fine
		_ = client.CloseWrite()
		if _, err := backend.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%v", err)
		}
		if took := <-done; took != time.Hour+linger {
			t.Errorf("it took %s", took)
		}
	})
}

// While the other direction moves, a half that has ended does not end it.
func TestHalfClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, front := link()
		back, backend := link()
		done := make(chan struct{})
		go func() {
			Splice(t.Context(), front, back, 0)
			close(done)
		}()
		_ = client.CloseWrite()
		go func() {
			for range 100 {
				time.Sleep(linger / 2)
				_, _ = backend.Write([]byte("x"))
			}
			_ = backend.Close()
		}()
		if got, err := io.ReadAll(client); err != nil || len(got) != 100 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		<-done
	})
}

// A backend that takes no more has its last words told, and what the client still sends is dropped.
func TestDeafBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, front := link()
		back, backend := link()
		done := make(chan struct{})
		go func() {
			Splice(t.Context(), front, back, 0)
			close(done)
		}()
		_ = backend.Conn.Close() // it reads no more
		sent := make(chan error)
		go func() {
			_, err := client.Write(make([]byte, 1<<20))
			sent <- err
		}()
		time.Sleep(time.Second)
		_, _ = backend.Write([]byte("last words"))
		_ = backend.CloseWrite()
		if got, err := io.ReadAll(client); err != nil || string(got) != "last words" {
			t.Errorf("%q, %v", got, err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
		_ = client.Close()
		<-done
	})
}

func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, front := link()
		back, _ := link()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			Splice(ctx, front, back, 0)
			close(done)
		}()
		cancel()
		<-done
	})
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var to bytes.Buffer
		w := &Throttle{Writer: &to, Limit: NewLimit(1000), Context: t.Context()}
		if n, err := w.Write(make([]byte, 3000)); n != 3000 || err != nil || to.Len() != 3000 {
			t.Errorf("%d, %v", n, err)
		}
		if took := time.Since(began); took != 2*time.Second { // the first second's bytes go at once
			t.Errorf("it took %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if n, err := (&Throttle{Writer: &to, Limit: NewLimit(1), Context: ctx}).Write(make([]byte, 10)); err == nil || n > 1 {
			t.Errorf("%d, %v", n, err)
		}
	})
}
