package aggregator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"

	"github.com/kanzen-io/kanzen/internal/base/span/spanhttp"
	"github.com/kanzen-io/kanzen/internal/wire/frontproxy"
)

// transports are the connections to a backend. They authenticate this server as a front proxy; the user is in headers.
type transports struct {
	// shared is for requests, over connections that are kept: HTTP/2 if the backend speaks it.
	shared http.RoundTripper
	// upgrade is for requests that take over their connection.
	upgrade http.RoundTripper
	// broken is the reason why there are no connections; nil: there are.
	broken error
	// forget closes the connections that no request uses, so that the next ones go to where the service leads now.
	forget func()
}

// errAuthorities means that a caBundle has no certificate.
var errAuthorities = errors.New("unable to load root certificates: unable to parse bytes as PEM block")

func newTransports(s *Server, key backendKey) *transports {
	config, err := tlsOf(s, key)
	if err != nil {
		return &transports{broken: err, forget: func() {}}
	}
	shared, upgrade := frontproxy.NewShared(s.Dial, config), frontproxy.NewUpgrade(s.Dial, config)
	seen := &s.Metrics.certificates
	return &transports{
		shared: frontproxy.Retrying{Next: spanhttp.Transport(seen.Of(shared))}, upgrade: seen.Of(upgrade),
		forget: shared.CloseIdleConnections,
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

// address returns where the next request to the backend goes.
func (b *backend) address(ctx context.Context) (string, error) {
	return b.server.Resolver.Resolve(ctx, b.key.namespace, b.key.name, b.key.port)
}
