// Package inprocess is the way into the server for those in the same process: an
// http.RoundTripper that hands requests to the chain without a socket. They are
// authorized, admitted and audited as any other; only who they are is known
// without credentials.
package inprocess

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/authn"
)

type userKey struct{}

// WithUser returns a context whose requests are a user's, as Authenticator sees it.
func WithUser(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// Authenticator authenticates requests that came by a transport of this process
// as the user it was made for. Nothing on the wire can put a value into a
// request's context.
type Authenticator struct{ Next authn.Authenticator }

// Authenticate is part of authn.Authenticator.
func (a Authenticator) Authenticate(r *http.Request) (user.Info, bool, error) {
	if u, ok := r.Context().Value(userKey{}).(user.Info); ok {
		return u, true, nil
	}
	return a.Next.Authenticate(r)
}

// Door leads to a server's chain. It is made before the chain, since some of what
// the chain is made of goes through it, and opened when that is there.
type Door struct {
	handler atomic.Pointer[http.Handler]
	server  context.Context // ends when requests are cut
}

// NewDoor makes a closed door. Requests through it end with ctx.
func NewDoor(ctx context.Context) *Door { return &Door{server: ctx} }

// Open leads requests to a handler from now on.
func (d *Door) Open(h http.Handler) { d.handler.Store(&h) }

// As makes requests of a user; nil lets the credentials in the request speak.
func (d *Door) As(u user.Info) http.RoundTripper { return &transport{d, u} }

// transport carries the requests of one user.
type transport struct {
	door *Door
	user user.Info
}

// RoundTrip serves the request in a goroutine of its own, so that the answer
// can be read while it is written.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	handler := t.door.handler.Load()
	if handler == nil {
		return nil, errors.New("the server is not up yet")
	}
	ctx, cancel := context.WithCancel(req.Context())
	uncut := context.AfterFunc(t.door.server, cancel)
	if t.user != nil {
		ctx = WithUser(ctx, t.user)
	}
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/2.0", 2, 0
	if in.Body == nil {
		in.Body = http.NoBody
	}
	r, w := newPipe()
	rw := &pipeWriter{pipe: w, head: req.Method == http.MethodHead, header: http.Header{}, started: make(chan struct{})}
	go func() {
		defer cancel()
		defer uncut()
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				rw.fail(errors.New("the handler panicked"))
				return
			}
			rw.finish()
		}()
		(*handler).ServeHTTP(rw, in)
	}()
	select {
	case <-rw.started:
	case <-req.Context().Done():
		cancel()
		return nil, req.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(rw.code), StatusCode: rw.code,
		Proto: in.Proto, ProtoMajor: 2,
		Header: rw.sent, Body: &body{Reader: r, close: func() { cancel(); r.Close() }},
		ContentLength: -1, Request: req,
	}, nil
}

type body struct {
	io.Reader
	close func()
}

// Close ends the request.
func (b *body) Close() error { b.close(); return nil }

// pipeWriter is the http.ResponseWriter of an in-process request.
type pipeWriter struct {
	pipe    *pipe
	head    bool // of a HEAD request, whose answer has no body
	header  http.Header
	once    sync.Once
	started chan struct{}
	// Set before started is closed:
	code int
	sent http.Header
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(code int) {
	if code >= 100 && code < 200 {
		return
	}
	w.once.Do(func() {
		w.code, w.sent = code, w.header.Clone()
		close(w.started)
	})
}

func (w *pipeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.head {
		return len(p), nil
	}
	return w.pipe.Write(p)
}

// Flush is part of http.Flusher; what is written is there at once.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

func (w *pipeWriter) finish() {
	w.WriteHeader(http.StatusOK)
	w.pipe.CloseWrite(io.EOF)
}

func (w *pipeWriter) fail(err error) {
	w.WriteHeader(http.StatusInternalServerError)
	w.pipe.CloseWrite(err)
}

// Hijack is refused: there is no connection.
func (w *pipeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// pipe is a byte stream in memory with room for some of it, so that neither
// side waits for the other at every write.
type pipe struct {
	mu     sync.Mutex
	cond   sync.Cond
	buf    []byte
	err    error // what the reader gets after buf; io.EOF at the end
	closed bool  // the reader is gone
}

// pipeRoom is how much may wait to be read.
const pipeRoom = 1 << 20

func newPipe() (r, w *pipe) {
	p := &pipe{}
	p.cond.L = &p.mu
	return p, p
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.buf) == 0 {
		if p.closed {
			return 0, io.ErrClosedPipe
		}
		if p.err != nil {
			return 0, p.err
		}
		p.cond.Wait()
	}
	n := copy(b, p.buf)
	if p.buf = p.buf[n:]; len(p.buf) == 0 {
		p.buf = nil
	}
	p.cond.Broadcast()
	return n, nil
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.buf) > 0 && len(p.buf)+len(b) > pipeRoom && !p.closed {
		p.cond.Wait()
	}
	if p.closed {
		return 0, io.ErrClosedPipe
	}
	p.buf = append(p.buf, b...)
	p.cond.Broadcast()
	return len(b), nil
}

// CloseWrite ends the stream with err.
func (p *pipe) CloseWrite(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	p.cond.Broadcast()
}

// Close tells the writer that nobody reads any more.
func (p *pipe) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.cond.Broadcast()
}
