// Package listener is the port of a server: HTTP over TLS in front of the chain, and how it is closed while requests are under way.
package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/observe/console"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/wire/h2"
)

// This file has the HTTP server and its bounds: for idle connections, and for
// what the chain does not see. The chain bounds requests (chain.Deadline).

const (
	// headerTimeout is how long a client may take for the header of a request.
	headerTimeout = 32 * time.Second
	// idleTimeout is how long a connection stays without a request.
	idleTimeout = 90 * time.Second
	// stuckTimeout is how long the client of an HTTP/2 connection may accept no
	// byte. Meanwhile none of its requests can be ended, because resetting a
	// stream writes to the connection.
	stuckTimeout = 30 * time.Second
	// defaultStreams is how many requests a client may have under way on one
	// HTTP/2 connection if --http2-max-streams-per-connection does not say.
	defaultStreams = 100
)

// Config is what a listener needs.
type Config struct {
	Root *config.Process
	// Port is closed by the listener.
	Port    net.Listener
	Handler http.Handler
	Keys    *keys.Keys
	// Requests is the parent of all requests' contexts.
	Requests context.Context
	// RequestTimeout is how long the chain lets a request take.
	RequestTimeout time.Duration
	// Shown is the certificate that is shown to a client; nil: that of Keys. Optional.
	Shown func(*tls.ClientHelloInfo) *tls.Certificate
	// HandshakeFailed is told of each failed handshake.
	HandshakeFailed func()
	Log             *slog.Logger
}

// Listener serves the chain over TLS.
type Listener struct {
	*http.Server
	port net.Listener
	two  *h2.Server // nil: only HTTP/1.1 is served
}

// New makes the HTTP server in front of the chain.
func New(c Config) (*Listener, error) {
	root := c.Root
	secure, err := tlsConfig(root, c.Keys)
	if err != nil {
		return nil, err
	}
	if c.Shown != nil {
		secure.GetCertificate = shown(c.Shown, secure.GetCertificate)
	}
	// This bounds what net/http reads and writes outside of the handler: the
	// unread rest of a body, the end of an answer. The chain lifts it for
	// long-running requests.
	whole := c.RequestTimeout + chain.Grace
	srv := &http.Server{
		Handler:           c.Handler,
		BaseContext:       func(net.Listener) context.Context { return c.Requests },
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       whole,
		WriteTimeout:      whole,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    1 << 20,
		ErrorLog:          stdlog.New(&serverErrors{c.Log, c.HandshakeFailed}, "", 0),
		TLSConfig:         secure,
	}
	if root.Console {
		srv.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return console.WithConnection(ctx) }
	}
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	l := &Listener{Server: srv, port: c.Port}
	if root.DisableHTTP2 {
		return l, nil
	}
	srv.Protocols.SetHTTP2(true)
	streams := root.HTTP2MaxStreams
	if streams <= 0 {
		streams = defaultStreams
	}
	l.two = &h2.Server{
		MaxStreams: uint32(streams),
		Stuck:      min(stuckTimeout, c.RequestTimeout),
		// Most bodies fit without waiting for a window update.
		StreamWindow: 256 << 10, ConnWindow: 16 << 20,
	}
	if err := l.two.Configure(srv); err != nil {
		return nil, err
	}
	return l, nil
}

// tlsConfig returns the TLS settings of the listener.
func tlsConfig(root *config.Process, k *keys.Keys) (*tls.Config, error) {
	minVersion, err := config.TLSVersion(root.TLSMinVersion)
	if err != nil {
		return nil, err
	}
	suites, err := config.CipherSuites(root.TLSCipherSuites)
	if err != nil {
		return nil, err
	}
	curves, err := config.CurvePreferences(root.TLSCurvePreferences)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		MinVersion: minVersion, CipherSuites: suites, CurvePreferences: curves,
		GetCertificate: k.Certificate,
		NextProtos:     []string{"h2", "http/1.1"},
	}
	if root.DisableHTTP2 {
		c.NextProtos = []string{"http/1.1"}
	}
	switch {
	case root.Planes:
		c.ClientAuth = tls.RequestClientCert // of any authority: each plane has its own
	case k.ClientCA != nil || k.RequestHeaderCA != nil:
		c.ClientAuth = tls.RequestClientCert // verified by the authenticators
		c.GetConfigForClient = k.NameAuthorities(c.Clone())
	}
	return c, nil
}

// shown returns a certificate that is shown to some clients; the others are shown another one.
func shown(some func(*tls.ClientHelloInfo) *tls.Certificate, others func(*tls.ClientHelloInfo) (*tls.Certificate, error)) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if c := some(hello); c != nil {
			return c, nil
		}
		return others(hello)
	}
}

// Address returns the address on which it listens; "" if there is no listener.
func (l *Listener) Address() string {
	if l == nil {
		return ""
	}
	return l.port.Addr().String()
}

// Serve serves until the listener is closed.
func (l *Listener) Serve() error {
	err := l.ServeTLS(l.port, "", "")
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// ended waits until clients have closed their connections, for limit at most.
func (l *Listener) ended(limit time.Duration) {
	if l.two == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	l.two.Ended(ctx)
}

// serverErrors receives the log of the HTTP server. It has errors of connections, which clients
// cause, so they are logged for debugging only.
type serverErrors struct {
	log             *slog.Logger
	handshakeFailed func()
}

// Write is part of io.Writer.
func (e *serverErrors) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if strings.Contains(text, "TLS handshake error") {
		e.handshakeFailed()
	}
	e.log.Debug(text)
	return len(line), nil
}
