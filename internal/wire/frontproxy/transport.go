package frontproxy

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Bounds of connections to other servers.
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

// Certificate returns the certificate with which this server is a front proxy. It is a field of tls.Config.
type Certificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error)

// NewUpgrade makes the transport for requests that take over their connection. Each has one of its own, which nobody uses
// after it, whatever the other server answers. dial may be nil.
func NewUpgrade(dial utilnet.DialFunc, config *tls.Config) *http.Transport {
	t := newTransport(dial, config)
	t.DisableKeepAlives = true
	return t
}

// NewShared makes the transport for the other requests, over connections that are kept: HTTP/2 if the other server speaks it.
// dial may be nil.
func NewShared(dial utilnet.DialFunc, config *tls.Config) *Shared {
	return &Shared{certificate: config.GetClientCertificate, open: func() *http.Transport {
		t := newTransport(dial, config)
		t.Proxy = http.ProxyFromEnvironment
		t.Protocols.SetHTTP2(true)
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: pingTimeout}
		return t
	}}
}

// Shared is a transport whose connections end when this server's certificate has changed: the others look at the
// certificate with each request, and an HTTP/2 connection that is in use would outlive it.
type Shared struct {
	certificate Certificate // nil: there is none
	open        func() *http.Transport
	now         atomic.Pointer[generation]
}

// generation are the connections with one certificate.
type generation struct {
	*http.Transport
	certificate *tls.Certificate
}

// RoundTrip is part of http.RoundTripper.
func (t *Shared) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.current().RoundTrip(r)
}

func (t *Shared) current() *generation {
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
func (t *Shared) CloseIdleConnections() {
	if g := t.now.Load(); g != nil {
		g.CloseIdleConnections()
	}
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
