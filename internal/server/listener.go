package server

import (
	"context"
	"crypto/tls"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/kanzen-io/kanzen/internal/chain"
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

// httpServer serves the handler over TLS.
func (s *Server) httpServer() (*http.Server, error) {
	config, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	// What net/http reads and writes outside of the handler: the rest of a body
	// that nobody wanted, the end of an answer. The chain takes this off
	// long-running requests.
	whole := s.cfg.RequestTimeout + chain.Grace
	srv := &http.Server{
		Handler:           s.handler,
		BaseContext:       func(net.Listener) context.Context { return s.requests },
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       whole,
		WriteTimeout:      whole,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    1 << 20,
		ErrorLog:          stdlog.New(&serverErrors{s.log, s.metrics}, "", 0),
		TLSConfig:         config,
	}
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	if s.cfg.DisableHTTP2 {
		return srv, nil
	}
	srv.Protocols.SetHTTP2(true)
	streams := s.cfg.HTTP2MaxStreams
	if streams <= 0 {
		streams = defaultStreams
	}
	srv.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: streams,
		WriteByteTimeout:     min(stuckTimeout, s.cfg.RequestTimeout),
		// One stream's uploads and all of a connection's: room for most bodies
		// without waiting for the server's leave in between.
		MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 16 << 20,
	}
	return srv, nil
}

// tlsConfig is how connections are made.
func (s *Server) tlsConfig() (*tls.Config, error) {
	minVersion, err := tlsVersion(s.cfg.TLSMinVersion)
	if err != nil {
		return nil, err
	}
	suites, err := cipherSuites(s.cfg.TLSCipherSuites)
	if err != nil {
		return nil, err
	}
	curves, err := curvePreferences(s.cfg.TLSCurvePreferences)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		MinVersion: minVersion, CipherSuites: suites, CurvePreferences: curves,
		GetCertificate: certificateFor(s.keys.serving, s.keys.sni),
		NextProtos:     []string{"h2", "http/1.1"},
	}
	if s.cfg.DisableHTTP2 {
		c.NextProtos = []string{"http/1.1"}
	}
	if s.keys.clientCA != nil || s.keys.requestHeaderCA != nil {
		c.ClientAuth = tls.RequestClientCert // judged by the authenticators
		c.GetConfigForClient = (&clientAuthorities{base: c.Clone(), keys: s.keys}).config
	}
	return c, nil
}
