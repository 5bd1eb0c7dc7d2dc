// Package h2 serves HTTP/2 (RFC 9113) over TLS, in place of net/http's server for it, with which a small read cost twice as much. Here the
// goroutine of a request writes its answer itself. There the goroutine that serves the connection does, and the two wait for each other
// several times for each answer. What several streams have to write at the same time goes in one write.
//
// Handlers, requests, limits and what clients get are as with net/http: streams and their flow control, trailers in both directions,
// 100-continue, informational answers, deadlines by http.ResponseController, GOAWAY when the server shuts down or an answer has the header
// "Connection: close". Push, upgrades from HTTP/1.1 and extended CONNECT, which net/http has switched off, are not there. Priorities of
// clients are ignored: streams take turns.
//
// Frames are read by golang.org/x/net/http2.Framer, which checks their form and bounds the headers of a request. From then on, what a
// client sends is judged here:
//
//	server.go    connections and their end
//	conn.go      a connection: its state, the loop that reads, faults
//	frames.go    what each frame does
//	request.go   a request made of its headers
//	body.go      the body of a request
//	stream.go    a stream, from its request to its end
//	response.go  the http.ResponseWriter
//	fields.go    headers of answers, encoded; date.go, one of them
//	flow.go      windows, and those who wait for them
//	write.go     bytes that wait to be written
//	workers.go   goroutines that run handlers
package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Server serves the HTTP/2 connections of an http.Server.
type Server struct {
	// MaxStreams is how many requests a client may have under way on a connection.
	MaxStreams uint32
	// StreamWindow and ConnWindow are how many bytes of bodies that no handler has read a client may have sent: of a stream, and of all
	// streams of a connection. At least 65,535.
	StreamWindow, ConnWindow int32
	// Stuck is how long a client may accept nothing of what is written. Then the connection is closed. It must be positive.
	Stuck time.Duration

	http    *http.Server
	workers *workers

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
}

// Configure makes srv, which has not been started, hand connections to s that negotiate HTTP/2. The timeouts, the limit of headers and the
// log are those of srv.
func (s *Server) Configure(srv *http.Server) error {
	if err := suitable(srv.TLSConfig); err != nil {
		return err
	}
	s.http, s.workers, s.conns = srv, newWorkers(), map[*conn]struct{}{}
	if srv.TLSNextProto == nil {
		srv.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	srv.TLSNextProto["h2"] = s.serve
	srv.RegisterOnShutdown(s.shutdown)
	return nil
}

// suitable says whether clients of HTTP/2 can use these cipher suites (RFC 9113, section 9.2.2).
func suitable(c *tls.Config) error {
	if c == nil || c.CipherSuites == nil || c.MinVersion >= tls.VersionTLS13 {
		return nil
	}
	for _, required := range []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256} {
		if slices.Contains(c.CipherSuites, required) {
			return nil
		}
	}
	return errors.New("http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher (need at least one of TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)")
}

// allowed are the cipher suites of TLS 1.2 that HTTP/2 does not prohibit, of those that crypto/tls has.
var allowed = []uint16{
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
}

// inadequate says why a connection must not be used for HTTP/2; "" if it can be.
func inadequate(state *tls.ConnectionState) string {
	switch {
	case state.Version >= tls.VersionTLS13:
		return ""
	case state.Version < tls.VersionTLS12:
		return "TLS version too low"
	case !slices.Contains(allowed, state.CipherSuite):
		return fmt.Sprintf("Prohibited TLS 1.2 Cipher Suite: %x", state.CipherSuite)
	}
	return ""
}

// serve serves a connection until it ends. net/http calls it in a goroutine of the connection's own.
func (s *Server) serve(_ *http.Server, tc *tls.Conn, handler http.Handler) {
	ctx := context.Background()
	// net/http passes the context of the connection in this way, which it does not document.
	if base, ok := handler.(interface{ BaseContext() context.Context }); ok {
		ctx = base.BaseContext()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = context.WithValue(ctx, http.LocalAddrContextKey, tc.LocalAddr())
	ctx = context.WithValue(ctx, http.ServerContextKey, s.http)
	c := newConn(s, tc, handler, ctx)
	s.add(c)
	defer s.drop(c)
	c.serve()
}

func (s *Server) add(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	s.workers.open(true)
}

func (s *Server) drop(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.workers.open(len(s.conns) > 0)
}

// shutdown tells all clients to take their next requests elsewhere. Connections are closed when the requests under way are answered.
func (s *Server) shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.goAway()
	}
}

// Ended waits, after shutdown, until the connections have ended that have sent something lately: clients close them when they have all
// answers. Who closed such a connection before would throw away what its client has not taken yet. Nothing waits longer than ctx.
func (s *Server) Ended(ctx context.Context) {
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		if c.rests() {
			continue
		}
		select {
		case <-c.ended:
		case <-ctx.Done():
		}
	}
}

// logf is for faults of clients and handlers.
func (s *Server) logf(format string, args ...any) {
	if s.http.ErrorLog != nil {
		s.http.ErrorLog.Printf(format, args...)
	}
}
