package crd

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/object/schema"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Config is what a Server needs. All fields are required, but see NewFixed.
type Config struct {
	Engine *engine.Engine
	Store  *store.Cluster
	// Definitions is the endpoint of customresourcedefinitions.
	Definitions *engine.Endpoint
	// Client writes their status, as the server itself.
	Client *inprocess.Client
	// Catalog receives the custom resources.
	Catalog *catalog.Live
	// Call calls a conversion webhook.
	Call Call
	// Metrics measure schemas and conversions.
	Metrics *Metrics
	// Queues measures the queues of the controller; nil: nothing does.
	Queues *queue.Metrics
	Clock  clock.WithTickerAndDelayedExecution
	Guard  *guard.Guard
	Log    *slog.Logger
}

// Server serves custom resources.
type Server struct {
	Config
	programs *schema.Cache
	control  *controller
	// progress is how far the definitions were read.
	progress *store.Progress

	mu sync.RWMutex
	// groups are all definitions, by group and name; guarded by mu.
	groups map[string]map[string]*definition
	// unreadable are the names of definitions that cannot be read; guarded by mu.
	unreadable map[string]bool
}

// New creates a Server. It serves nothing before Run has read the definitions.
func New(c Config) *Server {
	s := &Server{Config: c, programs: schema.NewCache(c.Metrics.timing()), groups: map[string]map[string]*definition{}, unreadable: map[string]bool{}}
	s.control = &controller{
		Server:  s,
		changed: queue.New("crd", c.Clock, c.Guard, c.Queues, c.Log),
		dying:   queue.New("crd_finalizer", c.Clock, c.Guard, c.Queues, c.Log),
	}
	if c.Definitions != nil {
		s.progress = store.NewProgress(c.Definitions.View())
		c.Catalog.SettleBy(s.progress.CatchUp)
	}
	return s
}

// Run follows the definitions until ctx ends, with the user of ctx.
func (s *Server) Run(ctx context.Context) error {
	following := make(chan struct{})
	s.follow(ctx, func() { close(following) })
	s.control.run(ctx)
	<-following
	return nil
}

// Close lets go of what New has made, for a Server that may not have run.
func (s *Server) Close() error {
	s.control.changed.ShutDown()
	s.control.dying.ShutDown()
	return nil
}

// Ready returns a channel that is closed once all definitions from before the start are served.
func (s *Server) Ready() <-chan struct{} { return s.progress.Ready() }

// find returns the definition of a resource, or nil.
func (s *Server) find(group, plural string) *definition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.groups[group]
	if g == nil {
		return nil
	}
	return g[plural+"."+group]
}

// endpointToDelete returns the endpoint that deletes a definition's instances, whatever its conditions are.
func (s *Server) endpointToDelete(name string) (*engine.Endpoint, error) {
	group, plural := splitName(name)
	d := s.find(group, plural)
	if d == nil {
		return nil, fmt.Errorf("no definition %s", name)
	}
	return d.serving.endpoint(d.storage())
}

// decode decodes a stored definition.
func (s *Server) decode(i *store.Item) (*apiextensionsv1.CustomResourceDefinition, error) {
	if s.Definitions == nil {
		return decodeFixed(i)
	}
	obj, err := s.Definitions.Decode(context.Background(), i) // a Go type: nobody is asked
	if err != nil {
		return nil, err
	}
	d, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil, fmt.Errorf("%s is a %T", i.Key, obj)
	}
	return d, nil
}
