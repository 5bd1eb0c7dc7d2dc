package aggregator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kanzen-io/kanzen/internal/span/spanhttp"
)

// Bounds of connections to extension servers.
const (
	dialTimeout      = 30 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	maxIdle          = 25
	// maxHeader bounds the header of an answer, in bytes.
	maxHeader = 1 << 20
	// An HTTP/2 connection on which nothing has come for silence is dead if it does not answer a ping in pingTimeout.
	silence, pingTimeout = 30 * time.Second, 15 * time.Second
)

// transports are the connections to a backend. They authenticate this server as a front proxy; the user is in headers.
type transports struct {
	// shared is for requests, over connections that are kept: HTTP/2 if the backend speaks it.
	shared http.RoundTripper
	// upgrade is for requests that take over their connection. Each has one of its own, which nobody uses after it,
	// whatever the backend answers.
	upgrade http.RoundTripper
	// broken is the reason why there are no connections; nil: there are.
	broken error
	// lines are for short requests.
	lines *lines
	// forget closes the connections that no request uses, so that the next ones go to where the service leads now.
	forget func()
	close  func()
}

// errAuthorities means that a caBundle has no certificate.
var errAuthorities = errors.New("unable to load root certificates: unable to parse bytes as PEM block")

func newTransports(s *Server, key backendKey) *transports {
	config, err := tlsOf(s, key)
	if err != nil {
		return &transports{broken: err, close: func() {}}
	}
	shared := &rotating{certificate: s.Certificate, open: func() *http.Transport {
		t := newTransport(s.Dial, config)
		t.Proxy = http.ProxyFromEnvironment
		t.Protocols.SetHTTP2(true)
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingTimeout}
		return t
	}}
	upgrade := newTransport(s.Dial, config)
	upgrade.DisableKeepAlives = true
	seen := &s.Metrics.certificates
	lines := newLines(s, upgrade.DialContext, config)
	return &transports{
		shared: retrying{spanhttp.Transport(seen.Of(shared))}, upgrade: seen.Of(upgrade), lines: lines,
		forget: func() { lines.close(func(*line) bool { return true }); shared.CloseIdleConnections() },
		close:  func() { lines.end(); shared.CloseIdleConnections() },
	}
}

// rotating is a transport whose connections end when this server's certificate has changed: extension servers look at the
// certificate with each request, and an HTTP/2 connection that is in use would outlive it.
type rotating struct {
	certificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error) // nil: there is none
	open        func() *http.Transport
	now         atomic.Pointer[generation]
}

// generation are the connections with one certificate.
type generation struct {
	*http.Transport
	certificate *tls.Certificate
}

// RoundTrip is part of http.RoundTripper.
func (t *rotating) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.current().RoundTrip(r)
}

func (t *rotating) current() *generation {
	var certificate *tls.Certificate
	if t.certificate != nil {
		certificate, _ = t.certificate(nil) // without one the handshake fails, with the reason
	}
	for {
		old := t.now.Load()
		if old != nil && old.certificate == certificate {
			return old
		}
		next := &generation{t.open(), certificate}
		if t.now.CompareAndSwap(old, next) {
			if old != nil {
				old.CloseIdleConnections() // the others end with their last request
			}
			return next
		}
	}
}

// CloseIdleConnections closes the connections that no request uses.
func (t *rotating) CloseIdleConnections() {
	if g := t.now.Load(); g != nil {
		g.CloseIdleConnections()
	}
}

// tlsOf returns the TLS settings for a backend. Its certificate is for the service's name, wherever the service leads.
func tlsOf(s *Server, key backendKey) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: key.name + "." + key.namespace + ".svc",
		InsecureSkipVerify: key.insecure, GetClientCertificate: s.Certificate,
	}
	if key.authorities != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(key.authorities)) {
			return nil, errAuthorities
		}
	}
	return config, nil
}

func newTransport(dial utilnet.DialFunc, config *tls.Config) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	t := &http.Transport{
		DialContext: dial, TLSClientConfig: config.Clone(), TLSHandshakeTimeout: handshakeTimeout,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout, MaxResponseHeaderBytes: maxHeader,
		DisableCompression: true, Protocols: new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t
}

// address returns where the next request to the backend goes.
func (b *backend) address(ctx context.Context) (string, error) {
	return b.server.Resolver.Resolve(ctx, b.key.namespace, b.key.name, b.key.port)
}
