package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/lru"

	"github.com/kanzen-io/kanzen/internal/base/span/spanhttp"
)

// Resolver finds the addresses of services.
type Resolver interface {
	// Resolve returns the address (host:port) for a port of a service.
	Resolve(ctx context.Context, namespace, name string, port int32) (string, error)
}

// Dialers connect to webhooks that are services of the cluster, and to those
// given by URL. Nil means a plain dialer.
type Dialers struct {
	Services, URLs utilnet.DialFunc
	// InProcess returns a transport to a webhook in this process, by host and
	// port; nil: it is not in this process. Optional.
	InProcess func(host string) http.RoundTripper
}

// inProcess returns a client of a webhook in this process, nil if it is not.
func (d Dialers) inProcess(host, at string) *client {
	if d.InProcess == nil {
		return nil
	}
	t := d.InProcess(host)
	if t == nil {
		return nil
	}
	return &client{url: url.URL{Scheme: "https", Host: host, Path: path.Join("/", at)}, transport: t, closeIdle: func() {}}
}

// Clients calls webhooks over kept-alive connections. It is safe for concurrent
// use.
type Clients struct {
	credentials Credentials
	dialers     Dialers
	services    Resolver
	// self is the transport for requests to this server itself.
	self http.RoundTripper
	// Measured wraps the transports to webhooks; set before the first use. Optional.
	Measured func(http.RoundTripper) http.RoundTripper
	// ByEndpoint resolves a service for each request, and not for each connection; set before the first use.
	ByEndpoint bool

	mu    sync.Mutex
	known *lru.Cache // of *client by their configuration; guarded by mu
}

// maxClients bounds the number of webhooks whose connections are kept alive.
const maxClients = 200

// NewClients makes clients. self serves webhooks that are this server itself:
// the service kubernetes in the namespace default.
func NewClients(c Credentials, d Dialers, services Resolver, self http.RoundTripper) *Clients {
	return &Clients{credentials: c, dialers: d, services: services, self: self,
		known: lru.NewWithEvictionFunc(maxClients, func(_ lru.Key, v any) { v.(*client).closeIdle() })}
}

// Close closes the connections to webhooks.
func (c *Clients) Close() error {
	c.known.Clear()
	return nil
}

// client posts to one webhook.
type client struct {
	url       url.URL // without the query
	transport http.RoundTripper
	closeIdle func()
}

// Post sends a body to the webhook of a configuration, and returns the body of
// a 2xx answer.
func (c *Clients) Post(ctx context.Context, cc *admissionv1.WebhookClientConfig, body []byte) ([]byte, error) {
	to, err := c.of(newTarget(*cc))
	if err != nil {
		return nil, err
	}
	return to.post(ctx, body)
}

// target is where a webhook is.
type target struct {
	config admissionv1.WebhookClientConfig
	key    string // of its client: the same for the same configuration
}

func newTarget(config admissionv1.WebhookClientConfig) *target {
	key, _ := json.Marshal(config) // a struct of texts and numbers
	return &target{config, string(key)}
}

// of returns the client of a webhook.
func (c *Clients) of(t *target) (*client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.known.Get(t.key); ok {
		return known.(*client), nil
	}
	made, err := c.new(&t.config)
	if err == nil {
		if c.Measured != nil {
			made.transport = c.Measured(made.transport)
		}
		c.known.Add(t.key, made)
	}
	return made, err
}

func (c *Clients) new(cc *admissionv1.WebhookClientConfig) (*client, error) {
	if cc.Service != nil {
		return c.forService(cc)
	}
	if cc.URL == nil || *cc.URL == "" {
		return nil, errors.New("webhook configuration must have either service or URL")
	}
	u, err := url.Parse(*cc.URL)
	if err != nil {
		//lint:ignore ST1005 these are the words that clients know
		return nil, fmt.Errorf("Unparsable URL: %v", err)
	}
	target := u.Host
	if u.Port() == "" {
		target = net.JoinHostPort(u.Host, "443")
	}
	if target == "kubernetes.default.svc:443" {
		return c.toSelf(u.Path), nil
	}
	if near := c.dialers.inProcess(target, u.Path); near != nil {
		return near, nil
	}
	cfg, err := c.credentials.forTarget(target)
	if err != nil {
		return nil, err
	}
	if !isLoopback(u.Hostname()) {
		cfg.NextProtos = http1
	}
	cfg.Dial = c.dialers.URLs
	return newClient(cfg, url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}, cc.CABundle)
}

// http1 is used for addresses that may have several backends, because the
// single connection of HTTP/2 would reach only one of them.
var http1 = []string{"http/1.1"}

func (c *Clients) forService(cc *admissionv1.WebhookClientConfig) (*client, error) {
	s := cc.Service
	port, at := int32(443), ""
	if s.Port != nil && *s.Port != 0 {
		port = *s.Port
	}
	if s.Path != nil {
		at = *s.Path
	}
	if s.Name == "kubernetes" && s.Namespace == "default" && port == 443 {
		return c.toSelf(at), nil
	}
	name := s.Name + "." + s.Namespace + ".svc"
	host := net.JoinHostPort(name, strconv.Itoa(int(port)))
	if near := c.dialers.inProcess(host, at); near != nil {
		return near, nil
	}
	cfg, err := c.credentials.forTarget(host)
	if err != nil {
		return nil, err
	}
	cfg.NextProtos = http1
	if cfg.ServerName == "" {
		cfg.ServerName = name
	}
	dial := c.dialers.Services
	if dial == nil {
		dial = plain()
	}
	resolve := func(ctx context.Context) (string, error) { return c.services.Resolve(ctx, s.Namespace, s.Name, port) }
	if c.ByEndpoint {
		cfg.Dial = dial
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &byEndpoint{next, host, resolve} })
	} else {
		cfg.Dial = resolvingDialer(dial, host, resolve)
	}
	return newClient(cfg, url.URL{Scheme: "https", Host: host, Path: at}, cc.CABundle)
}

// toSelf makes a client of this server itself.
func (c *Clients) toSelf(at string) *client {
	return &client{url: url.URL{Scheme: "https", Host: "kubernetes.default.svc", Path: path.Join("/", at)}, transport: c.self, closeIdle: func() {}}
}

// dialTimeout bounds connecting; it is also the interval of keepalives.
const dialTimeout = 30 * time.Second

// plain makes a dialer without a proxy.
func plain() utilnet.DialFunc {
	return (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
}

// newClient makes a client with connections of its own.
func newClient(cfg *rest.Config, u url.URL, caBundle []byte) (*client, error) {
	if len(cfg.CAData) > 0 {
		cfg.CAData = append(cfg.CAData[:len(cfg.CAData):len(cfg.CAData)], '\n')
	}
	cfg.CAData = append(cfg.CAData, caBundle...)
	if cfg.Dial == nil {
		cfg.Dial = plain()
	}
	tc, err := cfg.TransportConfig()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := transport.TLSConfigFor(tc)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: tc.DialHolder.Dial, TLSClientConfig: tlsConfig,
		TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 25, IdleConnTimeout: 90 * time.Second,
		Protocols: new(http.Protocols), MaxResponseHeaderBytes: 1 << 20,
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(len(cfg.NextProtos) == 0)
	rt, err := transport.HTTPWrappersForConfig(tc, t)
	if err != nil {
		return nil, err
	}
	u.Path = path.Join("/", u.Path)
	return &client{url: u, transport: spanhttp.Transport(rt), closeIdle: t.CloseIdleConnections}, nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Endpoint is the server of a kubeconfig.
type Endpoint struct{ c *client }

// NewEndpoint makes the endpoint of a configuration.
func NewEndpoint(cfg *rest.Config) (*Endpoint, error) {
	u, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, err
	}
	if u.Host == "" {
		return nil, fmt.Errorf("%q is no URL of a server", cfg.Host)
	}
	c, err := newClient(cfg, url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}, nil)
	if err != nil {
		return nil, err
	}
	return &Endpoint{c}, nil
}

// Post sends a body and returns the body of a 2xx answer; anything else is an
// error, a StatusError if the server has answered with a code.
func (e *Endpoint) Post(ctx context.Context, body []byte) ([]byte, error) { return e.c.post(ctx, body) }
