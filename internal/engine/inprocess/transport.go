package inprocess

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Transport returns a transport for any request of a user; without one the credentials in the request decide.
func (d *Door) Transport(u user.Info) http.RoundTripper { return &transport{d, u} }

// transport sends the requests of one user.
type transport struct {
	door *Door
	user user.Info
}

// RoundTrip serves the request in its own goroutine, so that the caller can read the response while it is written.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	handler := t.door.handler.Load()
	if handler == nil {
		return nil, errClosed
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
			switch p := recover(); p {
			case nil:
				rw.finish()
			case http.ErrAbortHandler:
				rw.fail(io.ErrUnexpectedEOF) // the response is incomplete
			default:
				rw.fail(errPanicked)
			}
		}()
		(*handler).ServeHTTP(rw, in)
	}()
	select {
	case <-rw.started:
	case <-req.Context().Done():
	}
	if err := req.Context().Err(); err != nil { // also if there is an answer: that the request was cut off, perhaps
		cancel()
		r.Close()
		return nil, err
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
	head    bool // for a HEAD request, whose response has no body
	header  http.Header
	once    sync.Once
	started chan struct{}
	// set before started is closed
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

// Flush is part of http.Flusher. Written data is available at once.
func (w *pipeWriter) Flush() { w.WriteHeader(http.StatusOK) }

func (w *pipeWriter) finish() {
	w.WriteHeader(http.StatusOK)
	w.pipe.CloseWrite(io.EOF)
}

func (w *pipeWriter) fail(err error) {
	w.WriteHeader(http.StatusInternalServerError)
	w.pipe.CloseWrite(err)
}

// Hijack returns an error: there is no connection.
func (w *pipeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// pipe is a byte stream in memory with a buffer, so that neither side waits for the other at every write.
type pipe struct {
	mu     sync.Mutex
	cond   sync.Cond
	buf    []byte
	err    error // returned to the reader after buf; io.EOF at the end
	closed bool  // the reader has closed it
}

// pipeRoom bounds the bytes in the buffer.
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

// Close makes later writes fail.
func (p *pipe) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.cond.Broadcast()
}
