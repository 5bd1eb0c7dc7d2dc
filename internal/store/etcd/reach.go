package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Reach returns nil if etcd accepts requests; otherwise what keeps this process from it, with the address. Ping would say no
// more than that the time is up.
func (d *DB) Reach(ctx context.Context) error {
	err := d.Ping(ctx)
	if err == nil || d.reach == nil {
		return err
	}
	// The time of ctx may be up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachTimeout)
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
	if !secure {
		return nil
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
	if err := over.HandshakeContext(ctx); err != nil {
		return err
	}
	return refused(ctx, over)
}

// refused returns the refusal of a server that does not accept the client's certificate, or wants one. Since TLS 1.3 it
// comes after the handshake; a server that accepts the client greets it with HTTP/2's settings, or waits.
func refused(ctx context.Context, conn net.Conn) error {
	if until, ok := ctx.Deadline(); ok {
		_ = conn.SetReadDeadline(until)
	}
	_, err := conn.Read(make([]byte, 1))
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		return nil
	}
	return err
}
