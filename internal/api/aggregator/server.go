package aggregator

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Resolver finds the address of a service's port.
type Resolver interface {
	Resolve(ctx context.Context, namespace, name string, port int32) (string, error)
}

// Config is what a Server needs. Dial, Certificate and Ending are optional, all others required.
type Config struct {
	// APIServices, Services and Slices are the endpoints of apiservices, services and endpointslices.
	APIServices, Services, Slices *engine.Endpoint
	// Client makes the writes, as the server itself.
	Client *inprocess.Client
	Store  *store.Cluster
	// Catalog receives the groups and versions of extension servers.
	Catalog *catalog.Live
	// Idle says that it will not run, and that nobody waits for it.
	Idle bool
	// CustomReady is closed once the catalog has all custom resources from before the start.
	CustomReady <-chan struct{}
	// CustomComplete reports whether all definitions of custom resources are known; nil: they are.
	CustomComplete func() bool
	Resolver       Resolver
	// Dial connects to extension servers; nil: plainly.
	Dial utilnet.DialFunc
	// Certificate returns the certificate by which extension servers know this server as a front proxy; nil: it has none.
	Certificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	// NoUID keeps users' UIDs from extension servers (the gate RemoteRequestHeaderUID is off).
	NoUID bool
	// PassRedirects passes redirects on to clients if they stay on this server.
	PassRedirects bool
	// Ending is closed when the server shuts down; streams end then. Nil: they last.
	Ending     <-chan struct{}
	WriteError func(w http.ResponseWriter, r *http.Request, err error)
	Metrics    *Metrics
	Queues     *queue.Metrics // nil: the queue is not measured
	Clock      clock.WithTickerAndDelayedExecution
	Guard      *guard.Guard
	Log        *slog.Logger
}

// Server is the Aggregator Server.
type Server struct {
	Config
	// groups are the groups whose local APIServices must be compared with the catalog.
	groups *queue.Queue
	// automatic has the APIServices of the built-in groups and versions, by name.
	automatic map[string]automatic
	reached   milestones
	// progress is how far the APIServices were read.
	progress *store.Progress
	// documents counts the changes of OpenAPI documents.
	documents atomic.Int64
	// v2 is held while a v2 document is read and divided.
	v2     chan struct{}
	copies sync.Pool // buffers of proxied bodies, each a *[copySize]byte
	silent *log.Logger

	mu sync.RWMutex
	// services is the index of APIServices by name; backends are those of the remote ones, by their key.
	services map[string]*service
	backends map[backendKey]*backend
	// byGroup has the names of services by group.
	byGroup map[string]map[string]bool
	// pending are automatic APIServices that were not available yet.
	pending map[string]bool
	// running starts the loops of a backend; nil before Run.
	running func(*backend)
}

// New creates a Server. It knows no APIService before Run.
func New(c Config) *Server {
	s := &Server{
		Config: c, groups: queue.New("apiservices", c.Clock, c.Guard, c.Queues, c.Log), automatic: map[string]automatic{}, progress: store.NewProgress(c.APIServices.View()),
		services: map[string]*service{}, backends: map[backendKey]*backend{}, byGroup: map[string]map[string]bool{}, pending: map[string]bool{},
		v2: make(chan struct{}, 1), silent: log.New(io.Discard, "", 0),
	}
	s.copies.New = func() any { return new([copySize]byte) }
	if !c.Idle { // nobody would ever look at the queue
		c.Catalog.SettleBy(s.progress.CatchUp)
		c.Catalog.OnCustom(func(group string) { s.groups.Add(group) })
	}
	c.Metrics.registerServices(s)
	return s
}

// Local adds the groups and versions of the kinds that this server always has. It is called before Begin and Run.
func (s *Server) Local(all []discovery.GroupVersion) {
	for _, gv := range all {
		if gv.GroupVersion == own {
			continue // it cannot be claimed
		}
		a := automaticOf(gv.GroupVersion, gv.GroupPriority, gv.VersionPriority, onStart)
		s.automatic[a.name] = a
		s.pending[a.name] = true
	}
}

// Run follows the APIServices, and serves what they register, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	routes := sync.OnceFunc(func() {
		wg.Go(func() { s.followServices(ctx) })
		wg.Go(func() { s.followSlices(ctx) })
	})
	s.mu.Lock()
	s.running = func(b *backend) {
		routes()
		for _, loop := range b.loops() {
			wg.Go(func() { s.Guard.Keep(b.ctx, "extension server "+b.key.String(), loop.run) })
		}
	}
	s.mu.Unlock()
	s.reached.loops.Store(true)
	s.follow(ctx)
	return nil
}

// Close closes the connections to extension servers, and lets go of what New has made, for a Server that may not have run.
func (s *Server) Close() error {
	s.groups.ShutDown()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.backends {
		b.close()
	}
	return nil
}

// Ready returns a channel that is closed once the groups and versions of all APIServices from before the start are in
// the catalog.
func (s *Server) Ready() <-chan struct{} { return s.progress.Ready() }
