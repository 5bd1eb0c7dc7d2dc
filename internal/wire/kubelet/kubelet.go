// Package kubelet leads requests to kubelets, pods and services: logs, exec, attach, port-forward and proxying. Where
// connections go follows from stored objects: a node's addresses and port, a pod's IP, a service's endpoints. Nothing of
// a path becomes a host.
//
// Clients open streams by SPDY or by websocket; kubelets speak SPDY, and newer ones the websocket protocols of exec,
// attach and port-forward too. What both sides speak is passed on as it is (package upgrade). Otherwise a session
// translates the channels of a websocket to SPDY streams, or a tunnel carries SPDY inside of a websocket.
package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/wire/pki"
	"github.com/kanzen-io/kanzen/internal/wire/upgrade"
)

// Config is what a Server needs.
type Config struct {
	// Node returns the newest node of a name.
	Node func(ctx context.Context, name string) (*corev1.Node, error)
	// AddressTypes select a node's address, the preferred first.
	AddressTypes []string
	// Port is that of kubelets whose node does not tell it.
	Port int
	// CAFile verifies kubelets; "" means that they are not verified.
	CAFile string
	// CertFile and KeyFile authenticate this server to kubelets.
	CertFile, KeyFile string
	// ConnectTimeout bounds connecting, AnswerTimeout waiting for the answer to an upgrade.
	ConnectTimeout, AnswerTimeout time.Duration
	// BytesPerSecond bounds each direction of a stream; zero does not.
	BytesPerSecond int64
	// NoTranslation and NoTunnels pass websockets on to every kubelet as they are: those of commands, and those of forwarded
	// ports (the gates TranslateStreamCloseWebsocketRequests and PortForwardWebsockets are off).
	NoTranslation, NoTunnels bool
	// Dial connects to the network of nodes, pods and services; nil: plainly.
	Dial utilnet.DialFunc
	// WriteError answers with an error.
	WriteError func(w http.ResponseWriter, r *http.Request, err error)

	Registry prometheus.Registerer
	Clock    clock.PassiveClock
	Log      *slog.Logger
}

// Server serves requests that are led to kubelets, pods and services.
type Server struct {
	cfg Config
	// kubelets are connected to with this server's certificate; unverified ones only for logs, at a client's wish.
	kubelets, unverified *backend
	// proxied are kubelets to which clients proxy; workloads are pods, services, and other ports of nodes. Neither may
	// be this machine.
	proxied, workloads *backend
	metrics            *metrics
	sockets            sync.Pool // write buffers of websockets, used while something is written

	streams streams
}

// backend is how one kind of destination is reached.
type backend struct {
	upgrade.Proxy
	transport *http.Transport
}

// New creates a Server. It reads the certificates.
func New(c Config) (*Server, error) {
	verified, unverified := &tls.Config{InsecureSkipVerify: true}, &tls.Config{InsecureSkipVerify: true}
	settings := func() *tls.Config { return verified }
	if c.CertFile != "" {
		pair, err := pki.NewCertFile(c.CertFile, c.KeyFile, c.Clock, c.Log)
		if err != nil {
			return nil, fmt.Errorf("--kubelet-client-certificate: %w", err)
		}
		verified.GetClientCertificate, unverified.GetClientCertificate = pair.GetClientCertificate, pair.GetClientCertificate
	}
	if c.CAFile != "" {
		authorities, err := pki.NewBundleFile(c.CAFile, c.Clock, c.Log)
		if err != nil {
			return nil, fmt.Errorf("--kubelet-certificate-authority: %w", err)
		}
		verified.InsecureSkipVerify = false
		settings = func() *tls.Config {
			s := verified.Clone()
			s.RootCAs = authorities.Pool()
			return s
		}
	}
	s := &Server{cfg: c, metrics: newMetrics(c.Registry)}
	guarded := checked(c.Dial)
	s.kubelets = s.backend(c.Dial, c.ConnectTimeout, settings)
	s.unverified = s.backend(c.Dial, c.ConnectTimeout, func() *tls.Config { return unverified })
	s.proxied = s.backend(guarded, c.ConnectTimeout, settings)
	// Pods are reached by address, for which they have no certificate.
	s.workloads = s.backend(guarded, connectTimeout, func() *tls.Config { return &tls.Config{InsecureSkipVerify: true} })
	return s, nil
}

// connectTimeout bounds connecting to what is not a kubelet.
const connectTimeout = 30 * time.Second

// idleTimeout is how long an unused connection is kept.
const idleTimeout = 90 * time.Second

func (s *Server) backend(dial utilnet.DialFunc, timeout time.Duration, settings func() *tls.Config) *backend {
	d := &upgrade.Dialer{Dial: dial, TLS: settings, Timeout: timeout}
	return &backend{
		Proxy: upgrade.Proxy{Dialer: d, Answer: s.cfg.AnswerTimeout, BytesPerSecond: s.cfg.BytesPerSecond},
		transport: &http.Transport{
			DialContext: d.Bounded(d.DialPlain), DialTLSContext: d.Bounded(d.DialTLS),
			// Bodies are passed on as they are.
			DisableCompression: true,
			IdleConnTimeout:    idleTimeout, MaxIdleConnsPerHost: 25,
		},
	}
}

// streams counts what is being served, so that shutting down can wait for it.
type streams struct {
	mu      sync.Mutex
	closing bool // guarded by mu
	open    sync.WaitGroup
}

// enter counts a stream in, until leave is called.
func (s *streams) enter() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, apierrors.NewServiceUnavailable("the server is shutting down")
	}
	s.open.Add(1)
	return s.open.Done, nil
}

// closeTimeout bounds waiting for streams whose requests have been cancelled.
const closeTimeout = 5 * time.Second

// Close takes no more requests and returns when those that are open have ended. The caller has cancelled them.
func (s *Server) Close() error {
	s.streams.mu.Lock()
	s.streams.closing = true
	s.streams.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		s.streams.open.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closeTimeout):
		s.cfg.Log.Warn("streams have not ended in time")
	}
	for _, b := range []*backend{s.kubelets, s.unverified, s.proxied, s.workloads} {
		b.transport.CloseIdleConnections()
	}
	return nil
}
