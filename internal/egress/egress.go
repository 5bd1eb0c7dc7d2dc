// Package egress leads the server's own connections through proxies: one for
// each network that an EgressSelectorConfiguration names
// (--egress-selector-config-file). Who connects asks for the dialer of the
// network that the other end is in; how the proxy is spoken with, and how long
// it may take, is decided here.
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

	"github.com/kanzen-io/kanzen/internal/span"
)

// Network is where connections go to.
type Network string

// The networks.
const (
	// ControlPlane has what the server itself works with: webhooks that
	// authenticate, authorize and audit, admission webhooks that are named by
	// URL, the collector of traces.
	ControlPlane Network = "controlplane"
	// Cluster has nodes, pods and services, admission and conversion webhooks
	// and extension API servers among them.
	Cluster Network = "cluster"
	// Etcd has the storage.
	Etcd Network = "etcd"
)

// dialTimeout bounds reaching a proxy and waiting for its answer, together,
// as it bounds connections without a proxy.
const dialTimeout = 30 * time.Second

// Selector has the dialers. A nil one has none.
type Selector struct{ dialers map[Network]utilnet.DialFunc }

// Load makes the dialers that a configuration file says.
func Load(path string, r prometheus.Registerer, clk clock.PassiveClock) (*Selector, error) {
	c, err := read(path)
	if err != nil {
		return nil, err
	}
	s := &Selector{dialers: map[Network]utilnet.DialFunc{}}
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
		s.dialers[n] = p.dialer(m, clk)
	}
	return s, nil
}

// Dial returns what connects into a network; nil: a plain dialer does.
func (s *Selector) Dial(n Network) utilnet.DialFunc {
	if s == nil {
		return nil
	}
	return s.dialers[n]
}

// proxy is how one is spoken with.
type proxy struct {
	protocol, transport string // as metrics name them
	// connect reaches the proxy. What it returns is called once.
	connect func(ctx context.Context) (ask, error)
}

// ask asks a proxy that has been reached for a connection to an address. After
// an error nothing of it is left. The end of ctx ends asking and has no bearing
// on the connection.
type ask func(ctx context.Context, addr string) (net.Conn, error)

// proxyOf returns the proxy of a connection; nil where there is none.
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

// dialer connects through the proxy and measures it.
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
