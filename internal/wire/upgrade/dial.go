// Package upgrade leads requests that change the protocol of their connection (SPDY, websocket) to a backend: it
// connects, sends the request, and, if the backend answers 101, joins the two connections. The connection to a backend
// that answers anything else is closed and never used again: what a client sends after a failed upgrade must not reach
// the backend as further requests with the server's own credentials.
package upgrade

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// maxHead bounds the head of a backend's answer.
const maxHead = 1 << 20

// Dialer connects to backends.
type Dialer struct {
	// Dial makes plain connections; nil: a net.Dialer.
	Dial utilnet.DialFunc
	// TLS returns the settings of a new TLS connection. They are cloned.
	TLS func() *tls.Config
	// Timeout bounds connecting, with the TLS handshake; zero does not. DialPlain and DialTLS leave it to Bounded.
	Timeout time.Duration
}

// Connect connects to the host of a URL, with TLS if its scheme is https.
func (d *Dialer) Connect(ctx context.Context, u *url.URL) (net.Conn, error) {
	if u.Scheme == "https" {
		return d.Bounded(d.DialTLS)(ctx, "tcp", hostPort(u, "443"))
	}
	return d.Bounded(d.DialPlain)(ctx, "tcp", hostPort(u, "80"))
}

// Bounded gives up dialing after the Timeout.
func (d *Dialer) Bounded(dial utilnet.DialFunc) utilnet.DialFunc {
	if d.Timeout <= 0 {
		return dial
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, d.Timeout)
		defer cancel()
		return dial(ctx, network, addr)
	}
}

func hostPort(u *url.URL, port string) string {
	if p := u.Port(); p != "" {
		port = p
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// DialPlain connects to an address.
func (d *Dialer) DialPlain(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.Dial != nil {
		return d.Dial(ctx, network, addr)
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// DialTLS connects to an address and makes the handshake. It speaks HTTP/1.1, the one version with upgrades.
func (d *Dialer) DialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	plain, err := d.DialPlain(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	settings := d.TLS().Clone()
	settings.NextProtos = []string{"http/1.1"}
	if settings.ServerName == "" {
		settings.ServerName, _, _ = net.SplitHostPort(addr)
	}
	conn := tls.Client(plain, settings)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, err
	}
	return conn, nil
}

// Backend is the connection to a backend that has answered.
type Backend struct {
	net.Conn
	// Response is the answer. The body of one that is not a 101 is read from the connection.
	Response *http.Response
	reader   *bufio.Reader // has what the backend sent together with its answer; nil when that has been read
}

// Read reads what the backend sent after its answer.
func (b *Backend) Read(p []byte) (int, error) {
	if b.reader != nil && b.reader.Buffered() > 0 {
		return b.reader.Read(p)
	}
	b.reader = nil
	return b.Conn.Read(p)
}

// CloseWrite ends the direction to the backend.
func (b *Backend) CloseWrite() error { return closeWrite(b.Conn) }

// Switched reports whether the backend changed the protocol.
func (b *Backend) Switched() bool { return b.Response.StatusCode == http.StatusSwitchingProtocols }

// Send sends a request to the host of its URL and waits for the head of the answer, for a time that answer bounds. The
// caller closes the Backend.
func (d *Dialer) Send(req *http.Request, answer time.Duration) (*Backend, error) {
	ctx := req.Context()
	conn, err := d.Connect(ctx, req.URL)
	if err != nil {
		return nil, fmt.Errorf("error dialing backend: %w", err)
	}
	// Whatever blocks below ends with the connection.
	waiting, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	stop := context.AfterFunc(waiting, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	b, err := exchange(conn, req)
	if !stop() && err == nil {
		err = waiting.Err() // the connection has a deadline now
	}
	if err == nil {
		return b, nil
	}
	_ = conn.Close()
	if errors.Is(waiting.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, apierrors.NewTimeoutError(fmt.Sprintf("the backend did not answer within %s", answer), 0)
	}
	return nil, err
}

func exchange(conn net.Conn, req *http.Request) (*Backend, error) {
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("error sending request: %w", err)
	}
	limited := &io.LimitedReader{R: conn, N: maxHead}
	reader := bufio.NewReader(limited)
	resp, err := http.ReadResponse(reader, req)
	if err != nil {
		if limited.N <= 0 {
			err = fmt.Errorf("the head of the backend's answer is larger than %d bytes", maxHead)
		}
		return nil, err
	}
	limited.N = math.MaxInt64
	return &Backend{Conn: conn, Response: resp, reader: reader}, nil
}

// closeWrite ends one direction of a connection, or all of it if it has no halves.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
