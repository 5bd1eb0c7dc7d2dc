package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/observe/console"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/keys"
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

// listener serves the chain over TLS.
type listener struct {
	*http.Server
	port net.Listener
}

// listener makes the HTTP server in front of the chain. The context requests is
// the parent of all requests' contexts.
func (b *base) listener(handler http.Handler, k *keys.Keys, requests context.Context) (*listener, error) {
	secure, err := b.tlsConfig(k)
	if err != nil {
		return nil, err
	}
	// This bounds what net/http reads and writes outside of the handler: the
	// unread rest of a body, the end of an answer. The chain lifts it for
	// long-running requests.
	whole := b.cfg.RequestTimeout + chain.Grace
	srv := &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       whole,
		WriteTimeout:      whole,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    1 << 20,
		ErrorLog:          stdlog.New(&serverErrors{b.log, b.metrics}, "", 0),
		TLSConfig:         secure,
	}
	if b.root.Console {
		srv.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return console.WithConnection(ctx) }
	}
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	l := &listener{srv, b.socket}
	if b.root.DisableHTTP2 {
		return l, nil
	}
	srv.Protocols.SetHTTP2(true)
	streams := b.root.HTTP2MaxStreams
	if streams <= 0 {
		streams = defaultStreams
	}
	srv.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: streams,
		WriteByteTimeout:     min(stuckTimeout, b.cfg.RequestTimeout),
		// Windows for the uploads of one stream and of a connection: most
		// bodies fit without waiting for a window update.
		MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 16 << 20,
	}
	return l, nil
}

// tlsConfig returns the TLS settings of the listener.
func (b *base) tlsConfig(k *keys.Keys) (*tls.Config, error) {
	minVersion, err := config.TLSVersion(b.root.TLSMinVersion)
	if err != nil {
		return nil, err
	}
	suites, err := config.CipherSuites(b.root.TLSCipherSuites)
	if err != nil {
		return nil, err
	}
	curves, err := config.CurvePreferences(b.root.TLSCurvePreferences)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		MinVersion: minVersion, CipherSuites: suites, CurvePreferences: curves,
		GetCertificate: k.Certificate,
		NextProtos:     []string{"h2", "http/1.1"},
	}
	if b.root.DisableHTTP2 {
		c.NextProtos = []string{"http/1.1"}
	}
	switch {
	case b.root.Planes:
		c.ClientAuth = tls.RequestClientCert // of any authority: each plane has its own
	case k.ClientCA != nil || k.RequestHeaderCA != nil:
		c.ClientAuth = tls.RequestClientCert // verified by the authenticators
		c.GetConfigForClient = k.NameAuthorities(c.Clone())
	}
	return c, nil
}

// shows has some clients be shown another certificate than that of the settings.
func (l *listener) shows(some func(*tls.ClientHelloInfo) *tls.Certificate) {
	others := l.TLSConfig.GetCertificate
	l.TLSConfig.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if c := some(hello); c != nil {
			return c, nil
		}
		return others(hello)
	}
}

// serve serves until the listener is closed.
func (l *listener) serve() error {
	err := l.ServeTLS(l.port, "", "")
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}
