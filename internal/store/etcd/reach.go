package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Reach returns nil if etcd accepts requests within the time of patience; otherwise what keeps this process from it, with the
// address. Ping would say no more than that the time is up.
func (d *DB) Reach(ctx context.Context, patience time.Duration) error {
	attempt, cancel := context.WithTimeout(ctx, patience)
	err := d.Ping(attempt)
	cancel()
	if err == nil || d.reach == nil || ctx.Err() != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if cause := d.reach(ctx); cause != nil {
		return cause
	}
	return err
}

// reach connects to each server in turn. It returns nil if one accepts connections.
func (c Cluster) reach(ctx context.Context) error {
	var errs []error
	for _, e := range c.Endpoints {
		err := c.reachOne(ctx, e)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", e, err))
	}
	return errors.Join(errs...)
}

func (c Cluster) reachOne(ctx context.Context, endpoint string) error {
	address, secure := endpoint, c.TLS != nil
	if u, err := url.Parse(endpoint); err == nil && strings.Contains(endpoint, "://") {
		if strings.HasPrefix(u.Scheme, "unix") {
			return nil
		}
		address, secure = u.Host, u.Scheme == "https"
	}
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })() // ends what reads and writes
	if !secure {
		return speaks(conn)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		config = c.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	config.NextProtos = []string{"h2"}
	over := tls.Client(conn, config)
	switch err := over.HandshakeContext(ctx); {
	case err == nil:
		return advise(refused(over))
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf("%w; name its authority with --etcd-cafile", err)
	case errors.As(err, new(tls.RecordHeaderError)), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("%w; if it does not want TLS, its URL is http://", err)
	default:
		return advise(err)
	}
}

// advise adds to the refusal of a certificate which flags name another.
func advise(err error) error {
	var remote *net.OpError
	if errors.As(err, &remote) && remote.Op == "remote error" {
		return fmt.Errorf("%w; it wants a certificate that its own authority has signed: --etcd-certfile, --etcd-keyfile", err)
	}
	return err
}

// hello is how a client of HTTP/2 begins: its preface, and no settings.
const hello = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// speaks says what is wrong with a server to which nothing is encrypted, as far as its first bytes tell: etcd answers with
// HTTP/2's settings. A server that says nothing may be slow.
func speaks(conn net.Conn) error {
	answer, n := make([]byte, 9), 0 // the head of a frame; its fourth byte is the type
	_, err := io.WriteString(conn, hello)
	if err == nil {
		n, err = io.ReadFull(conn, answer)
	}
	var slow net.Error
	switch {
	case n == 0 && errors.As(err, &slow) && slow.Timeout():
		return nil
	case n == 0, n > 1 && answer[0] == 0x15 && answer[1] == 0x03: // an alert of TLS
		return errors.New("it does not answer without TLS; if it wants that, its URL is https://")
	case err != nil || answer[3] != 4:
		return errors.New("it answers, but not as etcd's client URL does; is the port right?")
	}
	return nil
}

// refused returns the refusal of a server that does not accept the client's certificate, or wants one. Since TLS 1.3 it
// comes after the handshake; a server that accepts the client greets it with HTTP/2's settings, or waits.
func refused(conn net.Conn) error {
	_, err := conn.Read(make([]byte, 1))
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return nil
	}
	return err
}
