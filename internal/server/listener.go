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

	"github.com/kanzen-io/kanzen/internal/config"
	"github.com/kanzen-io/kanzen/internal/keys"
)

// listener serves the chain over TLS.
type listener struct {
	*http.Server
	port net.Listener
}

func (b *base) listener(handler http.Handler, k *keys.Keys, requests context.Context) (*listener, error) {
	minVersion, err := config.TLSVersion(b.cfg.TLSMinVersion)
	if err != nil {
		return nil, err
	}
	suites, err := config.CipherSuites(b.cfg.TLSCipherSuites)
	if err != nil {
		return nil, err
	}
	srv := &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: 32 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    1 << 20,
		ErrorLog:          stdlog.New(&serverErrors{b.log, b.metrics}, "", 0),
		TLSConfig: &tls.Config{
			MinVersion: minVersion, CipherSuites: suites,
			GetCertificate: k.Certificate,
			ClientAuth:     tls.RequestClientCert, // judged by the authenticators
			NextProtos:     []string{"h2", "http/1.1"},
		},
	}
	l := &listener{srv, b.ground.Listener}
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	if b.cfg.DisableHTTP2 {
		srv.TLSConfig.NextProtos = []string{"http/1.1"}
		return l, nil
	}
	srv.Protocols.SetHTTP2(true)
	srv.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: b.cfg.HTTP2MaxStreams,
		// One stream's uploads and all of a connection's: room for most bodies
		// without waiting for the server's leave in between.
		MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 16 << 20,
	}
	return l, nil
}

// serve serves until the listener is closed.
func (l *listener) serve() error {
	err := l.ServeTLS(l.port, "", "")
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}
