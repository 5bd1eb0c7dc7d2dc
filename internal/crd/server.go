package crd

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/crd/schema"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/guard"
	"github.com/kanzen-io/kanzen/internal/queue"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Config is what a Server works with. All fields are needed.
type Config struct {
	Engine *engine.Engine
	Store  *store.Store
	// Definitions is the endpoint of customresourcedefinitions.
	Definitions *engine.Endpoint
	// Builtin says that the API Server itself has a resource.
	Builtin func(group, resource string) bool
	// Call asks a conversion webhook.
	Call Call
	// Metrics measure what schemas and conversions take.
	Metrics *Metrics
	Clock   clock.WithTicker
	Guard   *guard.Guard
	Log     *slog.Logger
}

// Server serves custom resources.
type Server struct {
	Config
	programs *schema.Cache
	control  *controller
	// ready is closed when all definitions have been read once.
	ready chan struct{}
	// changes counts what discovery and OpenAPI documents depend on.
	changes atomic.Int64

	mu sync.RWMutex
	// groups are all definitions, by group and name; guarded by mu.
	groups map[string]map[string]*definition
	// rev is the revision that groups is at; moved is closed when it changes.
	rev   int64
	moved chan struct{}
}

// New makes a Server. It serves nothing before Run has read the definitions.
func New(c Config) *Server {
	s := &Server{Config: c, programs: schema.NewCache(c.Metrics.timing()), ready: make(chan struct{}), groups: map[string]map[string]*definition{}, moved: make(chan struct{})}
	s.control = &controller{
		Server:  s,
		changed: queue.New("crd", c.Clock, c.Guard, c.Log),
		dying:   queue.New("crd_finalizer", c.Clock, c.Guard, c.Log),
	}
	return s
}

// Run follows the definitions until ctx ends, as the user of ctx.
func (s *Server) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { s.control.run(ctx) })
	defer wg.Wait()
	return s.Definitions.View().Follow(ctx, &follower{Server: s, caught: sync.OnceFunc(func() { close(s.ready) })})
}

// Ready is closed once everything that was defined when the server began is served.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// ServeHTTP serves a resource request to a group that is not built in. It
// answers with NotFound where no definition has the resource.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := request.InfoFrom(r.Context())
	ep, err := s.route(r.Context(), i)
	if err != nil {
		engine.WriteError(w, r, apischema.GroupVersion{Group: i.Group, Version: i.Version}, err)
		return
	}
	if i.Subresource != "" && !ep.HasSubresource(i.Subresource) {
		engine.WriteError(w, r, ep.GVR.GroupVersion(), apierrors.NewNotFound(ep.GVR.GroupResource(), i.Name))
		return
	}
	ep.ServeHTTP(w, r)
}

// Owns says whether a path is one of a custom resource. Until the definitions
// have been read, it waits: a client would take a 404 for the truth.
func (s *Server) Owns(ctx context.Context, i *request.Info) bool {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return false
	}
	d := s.find(i.Group, i.Resource)
	if d == nil || !d.servable() || !d.serves(i.Version) {
		// It may just have come.
		if s.settle(ctx) != nil {
			return false
		}
		if d = s.find(i.Group, i.Resource); d == nil || !d.servable() || !d.serves(i.Version) {
			return false
		}
	}
	if !d.namespaced {
		return i.Namespace == ""
	}
	switch i.Verb {
	case "list", "watch":
		return true
	}
	return i.Namespace != ""
}

// route finds the endpoint of a request that Owns said is one of a custom resource.
func (s *Server) route(_ context.Context, i *request.Info) (*engine.Endpoint, error) {
	d := s.find(i.Group, i.Resource)
	if d == nil {
		return nil, engine.NoPath()
	}
	ep, err := d.serving.endpoint(i.Version)
	if err != nil {
		s.Log.Error("a custom resource cannot be served", "definition", d.name, "error", err)
		return nil, apierrors.NewInternalError(fmt.Errorf("error resolving resource"))
	}
	return ep, nil
}

// find returns the definition of a resource, nil if there is none.
func (s *Server) find(group, plural string) *definition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.groups[group]
	if g == nil {
		return nil
	}
	return g[plural+"."+group]
}

// Knows says whether any definition is of a group.
func (s *Server) Knows(group string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.groups[group]) > 0
}

// Endpoint returns the endpoint by which the server's own parts read and write
// a custom resource: the one of its storage version. It is nil if there is no
// such resource.
func (s *Server) Endpoint(gr apischema.GroupResource) *engine.Endpoint {
	d := s.find(gr.Group, gr.Resource)
	if d == nil || !d.servable() {
		return nil
	}
	ep, err := d.serving.endpoint(d.storage())
	if err != nil {
		return nil
	}
	return ep
}

// View returns the view of a custom resource, nil if there is no such resource
// or nobody has used it yet.
func (s *Server) View(gr apischema.GroupResource) *store.View {
	d := s.find(gr.Group, gr.Resource)
	if d == nil {
		return nil
	}
	return d.serving.view()
}

// Endpoints returns one endpoint for each custom resource there is.
func (s *Server) Endpoints() []*engine.Endpoint {
	var out []*engine.Endpoint
	for _, d := range s.established() {
		if ep, err := d.serving.endpoint(d.storage()); err == nil {
			out = append(out, ep)
		}
	}
	return out
}

// Resource is how a custom resource is addressed.
type Resource struct {
	apischema.GroupVersionResource
	Namespaced bool
}

// ResourceOf finds what a kind is served as.
func (s *Server) ResourceOf(gvk apischema.GroupVersionKind) []Resource {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []Resource
	for _, d := range s.groups[gvk.Group] {
		if d.servable() && d.accepted.Kind == gvk.Kind && d.serves(gvk.Version) {
			out = append(out, Resource{gvk.GroupVersion().WithResource(d.accepted.Plural), d.namespaced})
		}
	}
	return out
}

// endpointToDelete is the endpoint by which the instances of a definition are
// deleted, whatever is left of its conditions.
func (s *Server) endpointToDelete(name string) (*engine.Endpoint, error) {
	group, plural := splitName(name)
	d := s.find(group, plural)
	if d == nil {
		return nil, fmt.Errorf("no definition %s", name)
	}
	return d.serving.endpoint(d.storage())
}

// decode makes the object of a stored definition.
func (s *Server) decode(i *store.Item) (*apiextensionsv1.CustomResourceDefinition, error) {
	obj, err := s.Definitions.Decode(i)
	if err != nil {
		return nil, err
	}
	d, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil, fmt.Errorf("%s is a %T", i.Key, obj)
	}
	return d, nil
}
