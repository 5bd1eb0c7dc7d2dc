package frontproxy

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
)

// Retrying sends a request once more if the kept connection had died before anything of it was sent. net/http does so where
// it has learned of the end of the connection in time; over HTTP/2 it often has not.
type Retrying struct{ Next http.RoundTripper }

// RoundTrip is part of http.RoundTripper.
func (t Retrying) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		resp, err := t.Next.RoundTrip(r)
		if reads := r.Method == http.MethodGet || r.Method == http.MethodHead; reads && unsent(err) {
			return t.Next.RoundTrip(r)
		}
		return resp, err
	}
	body := &untouched{ReadCloser: r.Body}
	again := r.WithContext(r.Context())
	again.Body = body
	resp, err := t.Next.RoundTrip(again)
	if !body.read.Load() && unsent(err) {
		return t.Next.RoundTrip(r)
	}
	return resp, err
}

// unsent reports whether an error means that the connection was at its end before it was written to.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "write" && (errors.Is(op.Err, syscall.ECONNRESET) || errors.Is(op.Err, syscall.EPIPE))
}

// untouched is a body that knows whether it has been read, and that stays open for another attempt. The caller of RoundTrip
// closes it.
type untouched struct {
	io.ReadCloser
	read atomic.Bool
}

// Read is part of io.Reader.
func (b *untouched) Read(p []byte) (int, error) {
	b.read.Store(true)
	return b.ReadCloser.Read(p)
}

// Close is part of io.Closer.
func (b *untouched) Close() error { return nil }
