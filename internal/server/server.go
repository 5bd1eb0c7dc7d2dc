package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/admission/webhook"
	"github.com/kanzen-io/kanzen/internal/allocation"
	"github.com/kanzen-io/kanzen/internal/audit"
	"github.com/kanzen-io/kanzen/internal/authn"
	"github.com/kanzen-io/kanzen/internal/authz"
	"github.com/kanzen-io/kanzen/internal/builtin"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/controllers"
	"github.com/kanzen-io/kanzen/internal/crd"
	"github.com/kanzen-io/kanzen/internal/discovery"
	"github.com/kanzen-io/kanzen/internal/egress"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/flowcontrol"
	"github.com/kanzen-io/kanzen/internal/guard"
	"github.com/kanzen-io/kanzen/internal/metrics"
	"github.com/kanzen-io/kanzen/internal/openapi"
	"github.com/kanzen-io/kanzen/internal/pki"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/route"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/etcd"
	"github.com/kanzen-io/kanzen/internal/tracing"
)

// Server is an API server. New makes one, Run runs it.
type Server struct {
	cfg      Config
	log      *slog.Logger
	clock    clock.WithTicker
	egress   *egress.Selector // nil: all connections are made plainly
	listener net.Listener     // nil: only in-process requests are served
	keys     *keys
	db       *etcd.DB
	store    *store.Store
	metrics  *metrics.Metrics
	guard    *guard.Guard
	authz    *authorization
	authn    *authentication
	objects  *objects
	// conversion are the connections to the webhooks of custom resources.
	conversion *webhook.Clients
	endpoints  []*engine.Endpoint // of the built-in kinds
	docs       *openapi.Handler
	custom     *crd.Server
	inFlight   *chain.InFlight
	handler    http.Handler
	audit      *audit.Auditor          // nil: nothing is audited
	flow       *flowcontrol.Controller // nil: requests are only counted
	tracing    *tracing.Tracing        // nil: nothing is traced
	watches    *chain.Watches          // nil: they end all at once
	gone       chan struct{}           // closed when clients are to go elsewhere
	boot       *bootstrapper
	progress   *milestones
	stopping   chan struct{}
	ready      chan struct{}
	// requests is the context that all requests are under; cut ends those
	// that are left when the server stops.
	requests context.Context
	cut      context.CancelFunc
	// Service addresses and ports.
	ranges    []*net.IPNet
	addresses *allocation.Addresses
	nodePorts *allocation.NodePorts
	repair    *allocation.Repair
}

// New opens what the server needs (its port, its keys, etcd) and puts the parts
// together. Nothing is served before Run. What it opened it closes again
// if it fails.
func New(ctx context.Context, cfg Config, log *slog.Logger) (_ *Server, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: log, clock: clock.RealClock{}, inFlight: &chain.InFlight{}, progress: &milestones{},
		stopping: make(chan struct{}), gone: make(chan struct{}), ready: make(chan struct{})}
	if s.cfg.WatchTermination > 0 {
		s.watches = chain.NewWatches()
	}
	s.requests, s.cut = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	// The port first: if it is taken, nothing has been touched.
	if err := s.listen(); err != nil {
		return nil, err
	}
	s.metrics = metrics.New()
	s.guard = guard.New(log, s.clock, s.metrics.BackgroundPanicked)
	if file := s.cfg.EgressSelectorConfigFile; file != "" {
		if s.egress, err = egress.Load(file, s.metrics.Registry(), s.clock); err != nil {
			return nil, fmt.Errorf("--egress-selector-config-file: %w", err)
		}
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	if s.keys, err = loadKeys(ctx, &s.cfg, s.port(), s.clock, s.metrics.Registry(), log); err != nil {
		return nil, err
	}
	s.store = store.New(s.db, store.Options{Prefix: s.cfg.EtcdPrefix + "/", Clock: s.clock, Guard: s.guard, Log: log})
	s.objects = &objects{store: s.store, byGR: map[schema.GroupResource]*engine.Endpoint{}}
	if s.authz, err = s.newAuthorization(); err != nil {
		return nil, err
	}
	if s.authn, err = s.newAuthentication(); err != nil {
		return nil, err
	}
	authorizer := s.authz
	m := s.metrics
	if s.cfg.Verbosity == nil {
		s.cfg.Verbosity = NewVerbosity(0)
	}
	admit, err := s.admission(authorizer, m)
	if err != nil {
		return nil, err
	}
	eng := engine.New(engine.Config{
		Deprecated: m.Deprecated,
		Store:      s.store,
		Admit:      admit,
		Authorize:  authorizeWith(authorizer),
		Types:      openapi.NewTypeConverter(),
		Clock:      s.clock, NewUID: uuid.NewString, NameSuffix: nameSuffix,
		MinWatch: time.Duration(s.cfg.MinRequestTimeout) * time.Second,
		MaxBody:  3 << 20,
		Connect:  s.connect,
		Log:      log,
	})
	if err := s.allocation(ctx); err != nil {
		return nil, err
	}
	resources := builtin.Resources(s.deps(authorizer))
	table := route.Table{}
	for _, r := range resources {
		eps, err := eng.Endpoints(r)
		if err != nil {
			return nil, err
		}
		for _, ep := range eps {
			table[ep.GVR] = ep
			s.endpoints = append(s.endpoints, ep)
			s.objects.byGR[ep.GVR.GroupResource()] = ep
		}
	}
	s.custom = s.customResources(eng)
	s.objects.custom = s.custom.Endpoint
	docs, err := openapi.New(s.clock.Now())
	if err != nil {
		return nil, err
	}
	s.flow = s.flowControl(m.Register)
	if s.audit, err = s.auditor(m.Register); err != nil {
		return nil, err
	}
	s.docs = openapi.NewHandler(s.openAPI(docs).Get, log)
	if err := s.startTracing(ctx); err != nil {
		return nil, err
	}
	m.Owns = s.owns(table)
	health := newHealth(log, s.store, s.progress, s.stopping, m.Checked)
	resourceRoot := route.New(table, nil)
	resourceRoot.Missing = s.unrouted(resourceRoot.Knows)
	s.handler = chain.New(chain.Config{
		Handler: &root{
			resources: resourceRoot,
			discovery: s.discovery(discovery.Builtin(resources)),
			openapi:   s.docs,
			health:    health, metrics: m.Handler(s.cfg.Profiling), slis: m.SLIs(), issuer: s.keys.discovery, profiling: s.cfg.Profiling, flow: s.flow,
			zpages: &zpages{started: s.clock.Now(), clock: s.clock, flags: s.cfg.Flags}, verbosity: s.cfg.Verbosity,
		},
		Authenticator: authn.Measured(inProcess{s.authenticator()}, m.Registry(), s.clock),
		Authorizer:    authz.Measured(authorizer, m.Registry(), s.clock),
		Impersonator:  authorizer, Impersonations: metrics.NewImpersonation(m.Registry()),
		WriteError: writeError,
		Log:        log, Clock: s.clock, OnPanic: m.Panicked,
		RequestTimeout: s.cfg.RequestTimeout,
		MaxReading:     s.cfg.MaxReadOnlyInFlight, MaxWriting: s.cfg.MaxMutatingInFlight,
		CORS: s.corsOrigins(), HSTS: s.cfg.HSTSDirectives,
		ProxyHeaders: s.proxyHeaders(), InFlight: s.inFlight,
		SendRetryAfter: s.retryAfter(),
		Auditor:        s.audit,
		FlowControl:    s.flowFilter(),
		Metrics:        m.Filter,
		OnFilter:       m.Filtered,
		LogAccess:      s.cfg.Verbosity.logsAccess,
		GoawayChance:   s.cfg.GoawayChance, Random: mathrand.Float64,
		Watches: s.watches,
		Tracing: s.traced(m.Self),
	})
	service, err := s.kubernetesService(eng, health.notReady)
	if err != nil {
		return nil, err
	}
	s.boot = &bootstrapper{objects: s.objects, m: s.progress, ranges: s.ranges, all: s.endpoints,
		repair: s.repair, service: service, lease: newIdentity(s.objects, &s.cfg, s.port(), s.clock.Now), info: &authInfo{objects: s.objects, cfg: &s.cfg, keys: s.keys, now: s.clock.Now}}
	return s, nil
}

// listen takes the port.
func (s *Server) listen() error {
	if s.cfg.NoListener {
		return nil
	}
	addr := net.JoinHostPort(s.cfg.BindAddress.String(), strconv.Itoa(s.cfg.SecurePort))
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, errors.Unwrap(err))
	}
	s.listener = l
	return nil
}

// port is where the server listens, or would.
func (s *Server) port() int {
	if s.listener == nil {
		return s.cfg.SecurePort
	}
	return portOf(s.listener.Addr())
}

// open opens etcd: the one inside, or the cluster.
func (s *Server) open(ctx context.Context) (err error) {
	if s.cfg.Embedded() {
		s.db, err = etcd.OpenEmbedded(ctx, etcd.Embedded{
			Dir: filepath.Join(s.cfg.DataDir, "etcd"), UnsafeNoFsync: s.cfg.UnsafeNoFsync,
			Verbose: s.log.Enabled(ctx, slog.LevelDebug)})
		return err
	}
	t, err := s.cfg.etcdTLS()
	if err != nil {
		return err
	}
	s.db, err = etcd.Dial(etcd.Cluster{Endpoints: s.cfg.EtcdServers, TLS: t, Dial: s.egress.Dial(egress.Etcd)})
	return err
}

// etcdTLS is how to talk to the etcd cluster; nil is plainly.
func (c *Config) etcdTLS() (*tls.Config, error) {
	if c.EtcdCAFile == "" && c.EtcdCertFile == "" {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.EtcdCAFile != "" {
		pem, err := os.ReadFile(c.EtcdCAFile)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cafile: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--etcd-cafile: no certificates in %s", c.EtcdCAFile)
		}
	}
	if c.EtcdCertFile != "" {
		cert, err := tls.LoadX509KeyPair(c.EtcdCertFile, c.EtcdKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--etcd-certfile: %w", err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}

// allocation makes what hands out the addresses and ports of services.
func (s *Server) allocation(ctx context.Context) (err error) {
	if s.ranges, err = s.cfg.serviceRanges(); err != nil {
		return err
	}
	var families []corev1.IPFamily
	for _, r := range s.ranges {
		f := corev1.IPv4Protocol
		if r.IP.To4() == nil {
			f = corev1.IPv6Protocol
		}
		families = append(families, f)
	}
	first, last, err := s.cfg.nodePorts()
	if err != nil {
		return err
	}
	s.addresses = allocation.NewAddresses(s.objects, families, mathrand.Uint64N, s.clock)
	s.nodePorts = allocation.NewNodePorts(s.store, s.objects, first, last, mathrand.Uint64N)
	s.repair = allocation.NewRepair(s.addresses, s.nodePorts, s.clock, s.log)
	if s.cfg.Embedded() {
		// No other server is in the middle of anything: what was left behind
		// before now is nobody's.
		s.repair.Abandoned, err = s.db.Head(ctx)
	}
	return err
}

// createNamespace makes a namespace as the server itself.
func (s *Server) createNamespace(ctx context.Context, name string) error {
	ep, err := s.objects.endpoint(schema.GroupResource{Resource: "namespaces"})
	if err != nil {
		return err
	}
	_, err = ep.Make(request.WithUser(ctx, itself), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, managerServer)
	return err
}

// authorizeWith asks whether the context's user may do something else than the
// request that was authorized.
func authorizeWith(a authz.Authorizer) func(ctx context.Context, i *request.Info) error {
	return func(ctx context.Context, i *request.Info) error {
		at := authz.ForRequest(request.UserFrom(ctx), i)
		decision, reason, err := a.Authorize(ctx, at)
		if decision == authz.Allow {
			return nil
		}
		if err != nil {
			return err
		}
		return authz.Forbidden(at, reason)
	}
}

// suffixLetters are those of generated names: no vowels, that no words arise,
// and nothing that is read as something else.
const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

func nameSuffix() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	for n := range b {
		b[n] = suffixLetters[int(b[n])%len(suffixLetters)]
	}
	return string(b[:])
}

func writeError(w http.ResponseWriter, r *http.Request, err error) {
	gv := schema.GroupVersion{}
	if i := request.InfoFrom(r.Context()); i != nil && i.IsResource {
		gv = schema.GroupVersion{Group: i.Group, Version: i.Version}
	}
	engine.WriteError(w, r, gv, err)
}

// Transport makes requests of a user to this server, without a socket. A nil
// user lets the requests' own credentials speak.
func (s *Server) Transport(u user.Info) http.RoundTripper {
	return &transport{handler: s.handler, user: u, server: s.requests}
}

// Ready is closed once the server takes requests and has what a cluster starts with.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Address is where the server listens; "" if it does not.
func (s *Server) Address() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// close gives back what New took.
func (s *Server) close() error {
	s.cut()
	var errs []error
	if s.listener != nil {
		if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, s.stopTracing())
	if s.audit != nil {
		// Nobody is served any more; what is buffered is kept.
		errs = append(errs, s.audit.Backend.Close())
	}
	if s.keys != nil && s.keys.external != nil {
		errs = append(errs, s.keys.external.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}

// controllersConfig is what the controllers in this process work with.
func (s *Server) controllersConfig() controllers.Config {
	return controllers.Config{
		Transport: s.Transport,
		Endpoints: s.allEndpoints,
		Schema:    func(kind schema.GroupVersionKind) (*spec.Schema, error) { return s.docs.Set().Schema(kind) },
		Objects:   s.objects, Marks: s.store,
		Clock: s.clock, Guard: s.guard, Log: s.log,
	}
}

// Files are the keys and certificates that the server made for itself; empty
// if they were brought.
func (s *Server) Files() pki.Files {
	if s.keys.files == nil {
		return pki.Files{}
	}
	return *s.keys.files
}

// Kubeconfig is the path of the administrator's kubeconfig; "" if the server
// made none.
func (s *Server) Kubeconfig() string { return s.Files().Kubeconfig }
