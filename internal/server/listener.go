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
	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/keys"
)

// This file is the HTTP server that connections come to, and its bounds: of
// connections that ask for nothing, and of what the chain does not see. The
// bounds of requests are the chain's (chain.Deadline).

const (
	// headerTimeout is how long a client may take for the header of a request.
	headerTimeout = 32 * time.Second
	// idleTimeout is how long a connection stays without a request.
	idleTimeout = 90 * time.Second
	// stuckTimeout is how long an HTTP/2 connection may take no byte at all.
	// While it does, none of its requests can be ended: to reset a stream is to
	// write to the connection.
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

// listener makes the HTTP server in front of the chain. All requests are under
// the context requests.
func (b *base) listener(handler http.Handler, k *keys.Keys, requests context.Context) (*listener, error) {
	secure, err := b.tlsConfig(k)
	if err != nil {
		return nil, err
	}
	// What net/http reads and writes outside of the handler: the rest of a body
	// that nobody wanted, the end of an answer. The chain takes this off
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
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	l := &listener{srv, b.ground.Listener}
	if b.cfg.DisableHTTP2 {
		return l, nil
	}
	srv.Protocols.SetHTTP2(true)
	streams := b.cfg.HTTP2MaxStreams
	if streams <= 0 {
		streams = defaultStreams
	}
	srv.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: streams,
		WriteByteTimeout:     min(stuckTimeout, b.cfg.RequestTimeout),
		// One stream's uploads and all of a connection's: room for most bodies
		// without waiting for the server's leave in between.
		MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 16 << 20,
	}
	return l, nil
}

// tlsConfig is how connections are made.
func (b *base) tlsConfig(k *keys.Keys) (*tls.Config, error) {
	minVersion, err := config.TLSVersion(b.cfg.TLSMinVersion)
	if err != nil {
		return nil, err
	}
	suites, err := config.CipherSuites(b.cfg.TLSCipherSuites)
	if err != nil {
		return nil, err
	}
	curves, err := config.CurvePreferences(b.cfg.TLSCurvePreferences)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		MinVersion: minVersion, CipherSuites: suites, CurvePreferences: curves,
		GetCertificate: k.Certificate,
		NextProtos:     []string{"h2", "http/1.1"},
	}
	if b.cfg.DisableHTTP2 {
		c.NextProtos = []string{"http/1.1"}
	}
	if k.ClientCA != nil || k.RequestHeaderCA != nil {
		c.ClientAuth = tls.RequestClientCert // judged by the authenticators
		c.GetConfigForClient = k.NameAuthorities(c.Clone())
	}
	return c, nil
}

// serve serves until the listener is closed.
func (l *listener) serve() error {
	err := l.ServeTLS(l.port, "", "")
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}
