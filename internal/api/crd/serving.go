package crd

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/schema"
	"github.com/kanzen-io/kanzen/internal/store"
)

// serving is the state needed to serve a definition; each part is created on first use.
type serving struct {
	server *Server
	def    *definition
	// convert converts objects to another version.
	convert converter

	// before is that of the definition before its deletion began; nil otherwise. Its watches go on until this one's end, so that they see
	// the objects go.
	before *serving

	mu sync.Mutex
	// All fields below are guarded by mu.
	spec      *apiextensionsv1.CustomResourceDefinition // without its schemas
	endpoints map[string]*engine.Endpoint               // by version
	schemas   map[string]*schema.Schema                 // by version
	compiling time.Duration                             // that schemas have taken so far
	retired   bool
	forgotten bool

	checks, checking atomic.Int64 // objects validated, and the nanoseconds that took
}

func newServing(s *Server, d *definition) *serving {
	return &serving{server: s, def: d, endpoints: map[string]*engine.Endpoint{}, schemas: map[string]*schema.Schema{}}
}

// endpoint returns the endpoint of one version.
func (s *serving) endpoint(version string) (*engine.Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ep := s.endpoints[version]; ep != nil {
		return ep, nil
	}
	if s.forgotten { // nobody would forget the view that a new endpoint made
		return nil, errDeleted
	}
	if s.spec == nil {
		i := s.def.item
		d, err := s.server.decode(store.NewItem(i.Key, i.Rev, withoutSchemas(i)))
		if err != nil {
			return nil, err
		}
		s.spec = d
		if s.convert = s.def.convert; s.convert == nil {
			s.convert = s.server.converterOf(d)
		}
	}
	r, err := s.resource(version)
	if err != nil {
		return nil, err
	}
	ep, err := cmp.Or(s.def.engine, s.server.Engine).Endpoint(r)
	if err != nil {
		return nil, err
	}
	if s.retired {
		ep.Retire() // its watches end at once, and clients restart them elsewhere
	}
	s.endpoints[version] = ep
	return ep, nil
}

// schema returns the compiled schema of one version.
func (s *serving) schema(version string) (*schema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.schemas[version]; c != nil {
		return c, nil
	}
	d, err := s.server.decode(s.def.item)
	if err != nil {
		return nil, err
	}
	for _, v := range d.Spec.Versions {
		if v.Name != version {
			continue
		}
		var props *apiextensionsv1.JSONSchemaProps
		if v.Schema != nil {
			props = v.Schema.OpenAPIV3Schema
		}
		began := s.server.Clock.Now()
		c, err := schema.Compile(props, schema.Options{PreserveUnknownFields: d.Spec.PreserveUnknownFields, Cache: s.server.programs})
		if err != nil {
			return nil, fmt.Errorf("schema of version %s: %w", version, err)
		}
		s.schemas[version] = c
		s.compiling += s.server.Clock.Since(began)
		return c, nil
	}
	return nil, fmt.Errorf("definition %s has no version %s", s.def.name, version)
}

// retire ends the watches of all endpoints.
func (s *serving) retire() {
	if s.before != nil {
		s.before.retire()
	}
	for _, ep := range s.retiring() {
		ep.Retire()
		ep.DropOrders()
	}
}

// retiring returns the endpoints that are to be retired, which is nobody else's task then.
func (s *serving) retiring() []*engine.Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return nil
	}
	s.retired = true
	return slices.Collect(maps.Values(s.endpoints))
}

// view returns the objects of all versions; nil: there is no endpoint yet.
func (s *serving) view() *store.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ep := range s.endpoints {
		return ep.View()
	}
	return nil
}

// errDeleted says that a definition was deleted before it was asked for.
var errDeleted = errors.New("the definition was deleted")

// forget drops the cached objects, after the definition and its objects were deleted. They may have been read by an earlier state of the
// same definition, and not by this one. Those of a built-in kind that lie at the same keys remain: a definition may have the name of one, in
// a version that is not built in.
func (s *serving) forget() {
	s.mu.Lock()
	s.forgotten = true
	s.mu.Unlock()
	if !s.server.builtin(s.def.group, s.def.accepted.Plural) {
		s.server.Store.Forget(s.def.prefix() + "/")
	}
}
