package snapshot

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// What a store's server is trusted with: keeping snapshots. It may be anywhere, so that neither its answers nor its silence are
// unbounded.
const (
	// maxAnswer bounds an answer, in bytes: a page of a list has 1,000 names.
	maxAnswer = 8 << 20
	// maxListed bounds the names of a list.
	maxListed = 100_000
	// storePatience is how long nothing may be sent or received.
	storePatience = 2 * time.Minute
)

var (
	errLongAnswer = errors.New("the answer is too long")
	errLongList   = errors.New("the list has too many names")
)

// boundedAnswers is a transport whose answers are bounded.
type boundedAnswers struct{ next http.RoundTripper }

// RoundTrip is part of http.RoundTripper.
func (b boundedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = &boundedBody{resp.Body, maxAnswer}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read is part of io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errLongAnswer
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// impatient returns a dialer whose connections end when nothing moves on them for a while.
func impatient(dial func(ctx context.Context, network, address string) (net.Conn, error), patience time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &impatientConn{c, patience}, nil
	}
}

type impatientConn struct {
	net.Conn
	patience time.Duration
}

// Read is part of net.Conn.
func (c *impatientConn) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.patience)) // fails only if it is closed, which Read says, too
	return c.Conn.Read(p)
}

// Write is part of net.Conn.
func (c *impatientConn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.patience))
	return c.Conn.Write(p)
}
