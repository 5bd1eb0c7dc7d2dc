// Package egress connects the server's own clients through proxies: one for each network in an
// EgressSelectorConfiguration (--egress-selector-config-file). A client uses the dialer of its server's network; this
// package implements the proxy protocols and their timeout.
package egress

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/span"
)

// Network is the destination of connections.
type Network string

// Networks.
const (
	// ControlPlane contains what the server itself depends on: webhooks for authentication, authorization and audit,
	// admission webhooks with a URL, the trace collector.
	ControlPlane Network = "controlplane"
	// Cluster contains nodes, pods and services, including admission and conversion webhooks and extension API servers.
	Cluster Network = "cluster"
	// Etcd contains the storage.
	Etcd Network = "etcd"
)

// dialTimeout bounds connecting to a proxy and its answer together, as it bounds connections without a proxy.
const dialTimeout = 30 * time.Second

// Selector holds the dialers. A nil Selector has none.
type Selector struct {
	dialers map[Network]utilnet.DialFunc
	proxied map[Network]bool // those that go by a proxy
}

// Load creates the dialers of a configuration file.
func Load(path string, r prometheus.Registerer, clk clock.PassiveClock) (*Selector, error) {
	c, err := read(path)
	if err != nil {
		return nil, err
	}
	s := &Selector{dialers: map[Network]utilnet.DialFunc{}, proxied: map[Network]bool{}}
	m := newMetrics(r)
	for _, e := range c.EgressSelections {
		n := networkOf(e.Name)
		p, err := proxyOf(&e.Connection)
		if err != nil {
			return nil, fmt.Errorf("failed to create dialer for egressSelection %q: %w", n, err)
		}
		if p == nil {
			s.dialers[n] = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
			continue
		}
		s.dialers[n], s.proxied[n] = p.dialer(m, clk), true
	}
	return s, nil
}

// Dial returns the dialer for a network; nil: use a plain dialer.
func (s *Selector) Dial(n Network) utilnet.DialFunc {
	if s == nil {
		return nil
	}
	return s.dialers[n]
}

// proxy is a configured proxy.
type proxy struct {
	protocol, transport string // as in metrics
	// connect connects to the proxy. The returned ask is called once.
	connect func(ctx context.Context) (ask, error)
}

// ask requests a connection to an address from a connected proxy. After an error it has released everything. The end of
// ctx cancels the request, but does not affect the returned connection.
type ask func(ctx context.Context, addr string) (net.Conn, error)

// proxyOf returns the proxy of a configured connection; nil if there is none.
func proxyOf(c *apiserver.Connection) (*proxy, error) {
	if c.ProxyProtocol == apiserver.ProtocolDirect {
		return nil, nil
	}
	p := &proxy{protocol: "http_connect", transport: "uds"}
	switch uds := c.Transport.UDS; {
	case c.ProxyProtocol == apiserver.ProtocolGRPC:
		p.protocol, p.connect = "grpc", konnectivity(uds.UDSName)
	case uds != nil:
		p.connect = httpConnect(uds.UDSName, unix(uds.UDSName))
	default:
		address, dial, err := tcp(c.Transport.TCP)
		if err != nil {
			return nil, err
		}
		p.transport, p.connect = "tcp", httpConnect(address, dial)
	}
	return p, nil
}

// dialer returns a dialer through the proxy, with metrics.
func (p *proxy) dialer(m *metrics, clk clock.PassiveClock) utilnet.DialFunc {
	name := fmt.Sprintf("Proxy via %s protocol over %s", p.protocol, p.transport)
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		ctx, s := span.Start(ctx, name)
		defer s.End()
		if s.On() {
			s.Set(attribute.String("address", addr))
		}
		began := clk.Now()
		m.started(p)
		ask, err := p.connect(ctx)
		if err != nil {
			m.failed(p, "connect")
			return nil, err
		}
		conn, err := ask(ctx, addr)
		if err != nil {
			m.failed(p, "proxy")
			return nil, err
		}
		m.took(p, clk.Since(began))
		return conn, nil
	}
}
