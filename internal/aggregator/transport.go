package aggregator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/kanzen-io/kanzen/internal/span"
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
	close  func()
}

// errAuthorities means that a caBundle has no certificate.
var errAuthorities = errors.New("unable to load root certificates: unable to parse bytes as PEM block")

func newTransports(s *Server, key backendKey) *transports {
	config, err := tlsOf(s, key)
	if err != nil {
		return &transports{broken: err, close: func() {}}
	}
	shared, upgrade := newTransport(s.Dial, config), newTransport(s.Dial, config)
	shared.Proxy = http.ProxyFromEnvironment
	shared.Protocols.SetHTTP2(true)
	shared.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingTimeout}
	upgrade.DisableKeepAlives = true
	return &transports{
		shared: retrying{span.Transport(s.Metrics.certificates(shared))}, upgrade: s.Metrics.certificates(upgrade), close: shared.CloseIdleConnections,
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
