package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/cbor"
	"github.com/kanzen-io/kanzen/internal/object/fieldmanager"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
	"github.com/kanzen-io/kanzen/internal/request/route"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Config has the dependencies and settings of an Engine. All fields are
// required except where noted.
type Config struct {
	Store *store.Cluster
	// Admit is admission: it changes and refuses writes.
	Admit Admission
	// Authorize checks whether the request's user may do something that the
	// request itself was not authorized for; a nil error allows it.
	Authorize func(ctx context.Context, i *request.Info) error
	// Types describes the fields of built-in kinds to field management.
	Types fieldmanager.Types
	// Common has the objects that other control planes have too; nil: there are none.
	Common *Common
	// Clock, NewUID and NameSuffix make the engine deterministic in tests.
	Clock      clock.WithTicker
	NewUID     func() string
	NameSuffix func() string
	// MinWatch is the shortest time after which the server ends a watch that
	// names no timeout itself; it lasts up to twice as long.
	MinWatch time.Duration
	// MaxBody bounds request bodies, in bytes.
	MaxBody int64
	Log     *slog.Logger
	// Connect serves the subresources that stream to kubelets, pods and
	// services, with the options as admission returned them (nil if the
	// subresource has none). Optional.
	Connect func(w http.ResponseWriter, req *http.Request, sub *Subresource, options runtime.Object) error
	// Deprecated is called for requests in deprecated versions, for the metric.
	// Optional.
	Deprecated func(ctx context.Context, gvr schema.GroupVersionResource, subresource, removed string)
	// Wrote is called for each object that a request has changed, before the
	// answer. It may not change the objects. Optional.
	Wrote func(ctx context.Context, w Written)
	// Metrics measure watches. Optional.
	Metrics *Metrics
	// UnsafeDelete lets users delete objects that cannot be read, if they have the right to, and lists name those objects.
	UnsafeDelete bool
	// PagesAtZero has the limit hold for lists of any revision too (resourceVersion=0), as in a kube-apiserver without watch cache.
	PagesAtZero bool
	// Shards has lists and watches look at their shard selector.
	Shards bool
	// NoWatchLists has watches refused that ask for the initial state of what they watch.
	NoWatchLists bool
	// CompressWatchLists has the initial events of watches compressed for clients that accept it.
	CompressWatchLists bool
	// Extensions are those that are on. Namespaces returns the view of namespaces, and Rights tell what users may see, which some
	// of the extensions need.
	Extensions extensions.Set
	Namespaces func() *store.View
	Rights     Rights
	// Past is what is kept of objects beyond the log's compaction, for the extension of that name. Optional.
	Past Past
	// StoreCBOR stores custom resources as CBOR, and not as JSON. Both are read in any case.
	StoreCBOR bool
	// Transformer returns how the values of a resource are stored. Optional: as
	// they are.
	Transformer func(schema.GroupResource) store.Transformer
}

// Admission is what the engine needs of the admission chain.
type Admission interface {
	// Admit lets plugins change the object; Validate lets them refuse it.
	Admit(ctx context.Context, a *admission.Attributes) error
	Validate(ctx context.Context, a *admission.Attributes) error
}

// Engine serves Resources.
type Engine struct {
	Config
}

// New makes an Engine.
func New(c Config) *Engine {
	return &Engine{Config: c}
}

// Endpoint serves a Resource in one of its versions. Paths are routed to
// endpoints.
type Endpoint struct {
	e     *Engine
	R     *Resource
	V     *Version
	hub   *Version
	view  *store.View // nil for virtual resources
	GVK   schema.GroupVersionKind
	GVR   schema.GroupVersionResource
	typed bool // its objects are Go types with a protobuf encoding
	// selectable is the key under which items cache the selectable fields of
	// this version.
	selectable byte
	retired    chan struct{} // closed when another endpoint has replaced this one
	asked      sync.Once
	made       *prepared // made when it is first asked
}

// Endpoints returns the endpoints of a Resource, one for each version.
func (e *Engine) Endpoints(r *Resource) ([]*Endpoint, error) {
	var hub *Version
	for _, v := range r.Versions {
		if v.GroupVersion == r.Hub {
			hub = v
		}
	}
	if hub == nil {
		return nil, fmt.Errorf("%s: storage version %s is not among its versions", r.Plural, r.Hub)
	}
	var view *store.View
	if r.Prefix != "" {
		view = e.Store.View(e.kind(r, hub))
	}
	var eps []*Endpoint
	for _, v := range r.Versions {
		eps = append(eps, e.endpoint(r, v, hub, view))
	}
	return eps, nil
}

// Endpoint returns the endpoint of only the Resource's hub version.
func (e *Engine) Endpoint(r *Resource) (*Endpoint, error) {
	for _, v := range r.Versions {
		if v.GroupVersion == r.Hub {
			return e.endpoint(r, v, v, e.Store.View(e.kind(r, v))), nil
		}
	}
	return nil, fmt.Errorf("%s: version %s is not among its versions", r.Plural, r.Hub)
}

func (e *Engine) endpoint(r *Resource, v, hub *Version, view *store.View) *Endpoint {
	ep := &Endpoint{e: e, R: r, V: v, hub: hub, view: view, retired: make(chan struct{})}
	_, ep.typed = v.New().(unmarshaler)
	ep.GVK = v.WithKind(r.Kind)
	ep.GVR = v.WithResource(r.Plural)
	return ep
}

// prepared is what an endpoint needs for requests. A server has over a hundred endpoints, and most of them get none.
type prepared struct {
	forms    forms
	declared *route.Declared // all that is served

	mu      sync.Mutex
	manager map[string]*fieldmanager.Manager // by subresource; guarded by mu
	// all has the results of versions.All, by subresource; guarded by mu.
	all map[string][]admission.Version
}

// prepared returns what the endpoint needs for requests.
func (ep *Endpoint) prepared() *prepared {
	ep.asked.Do(func() {
		ep.made = &prepared{forms: newForms(ep), declared: ep.R.Declared(),
			manager: map[string]*fieldmanager.Manager{}, all: map[string][]admission.Version{}}
	})
	return ep.made
}

// Retire ends the endpoint's watches, as their timeout would: another endpoint
// has replaced it, and clients continue there. It is called once.
func (ep *Endpoint) Retire() { close(ep.retired) }

// DropOrders drops the orders and indexes of a view that the endpoint reads. Its caller holds no lock that decoding an object needs: the
// view decodes objects for them while it is locked.
func (ep *Endpoint) DropOrders() { ep.view.DropOrders(ep) }

// kind tells the store how to read a resource's items.
func (e *Engine) kind(r *Resource, hub *Version) store.Kind {
	var t store.Transformer
	if e.Transformer != nil {
		t = e.Transformer(schema.GroupResource{Group: hub.Group, Resource: r.Plural})
		if r.Codec != nil {
			t = cbor.Storage(t, e.StoreCBOR)
		}
	}
	return store.Kind{
		Prefix:      r.Prefix + "/",
		Resource:    schema.GroupResource{Group: hub.Group, Resource: r.Plural},
		Transformer: t,
		Labels:      itemLabels,
		Fields: func(value []byte) (fields.Set, error) {
			if r.Fields == nil || r.Codec != nil {
				return nil, nil // fields of custom resources are asked of the endpoint
			}
			obj, err := r.decodeTyped(hub, value)
			if err != nil {
				return nil, err
			}
			return r.Fields(obj), nil
		},
		Trigger: r.Trigger,
	}
}

// View returns the view of the endpoint's objects; nil for virtual resources.
func (ep *Endpoint) View() *store.View { return ep.view }

// Decode makes the hub object of a stored item. Only custom resources in another version than the stored one take long: a
// webhook may convert them, until ctx ends.
func (ep *Endpoint) Decode(ctx context.Context, i *store.Item) (Object, error) {
	if i.Err != nil {
		return nil, i.Err
	}
	obj, err := ep.R.decodeStored(ctx, ep.hub, i.Value())
	if err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", ep.R.Plural, i.Key, err)
	}
	if i.Rev > 0 {
		obj.SetResourceVersion(formatRev(i.Rev))
	}
	return obj, nil
}

// sharedForm is the key under which items cache their hub object.
type sharedForm struct{}

// IndexOf returns the endpoint's objects, decoded once for a revision and
// shared. T is their Go type, or Object.
func IndexOf[T Object](ep *Endpoint) *store.Index[T] {
	return store.NewIndex(ep.view, sharedForm{}, func(ctx context.Context, i *store.Item) (T, error) {
		var none T
		obj, err := ep.e.Common.decoded(i.Value(), ep.hub.WithKind(ep.R.Kind), i.Rev, func() (Object, error) { return ep.Decode(ctx, i) })
		if err != nil {
			return none, err
		}
		t, ok := obj.(T)
		if !ok {
			return none, fmt.Errorf("%s %s is a %T", ep.R.Plural, i.Key, obj)
		}
		return t, nil
	})
}

// partForm identifies one index of parts.
type partForm struct{ _ byte }

// PartsOf returns an index for who follows the endpoint's objects and needs little of each: part cuts an object, in protobuf
// without its type, down to what is decoded. Changes of the rest are left out. Nothing is set by default. What is not stored in
// protobuf is decoded whole.
func PartsOf(ep *Endpoint, part func(object []byte) []byte) *store.Index[Object] {
	rawIn := func(i *store.Item) ([]byte, bool) {
		raw, err := rawOf(i.Value())
		return raw, i.Err == nil && err == nil
	}
	return store.NewIndex(ep.view, new(partForm), func(ctx context.Context, i *store.Item) (Object, error) {
		obj := ep.hub.New()
		u, binary := obj.(unmarshaler)
		raw, ok := rawIn(i)
		if !binary || !ok {
			return ep.Decode(ctx, i)
		}
		if err := u.Unmarshal(part(raw)); err != nil {
			return nil, fmt.Errorf("decode %s %s: %w", ep.R.Plural, i.Key, err)
		}
		return obj, nil
	}).Where(func(was, now *store.Item) bool {
		a, okA := rawIn(was)
		b, okB := rawIn(now)
		return !okA || !okB || !bytes.Equal(part(a), part(b))
	})
}

// Shared is Decode for callers that only read the object: it is decoded once
// for each revision, and the caller must not change it.
func (ep *Endpoint) Shared(ctx context.Context, i *store.Item) (Object, error) {
	return IndexOf[Object](ep).Of(ctx, i)
}

func formatRev(rev int64) string { return strconv.FormatInt(rev, 10) }

// call is one request to one endpoint: what its path names, which it may write, and the way to answer it.
type call struct {
	write
	w   http.ResponseWriter
	req *http.Request
	// past says that the request asks what objects were at a moment.
	past bool
}

// ServeHTTP serves a request that the route table led here.
func (ep *Endpoint) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c := &call{write: write{Endpoint: ep, info: request.InfoFrom(req.Context()), agent: req.UserAgent()}, w: w, req: req}
	defer func() { c.span.End() }()
	if err := c.serve(); err != nil {
		defer c.answers().End()
		if ep.R.Secret {
			request.SetSecret(req.Context())
		}
		WriteError(w, c.req, ep.GVR.GroupVersion(), cmp.Or(request.Unfinished(req.Context()), err))
	}
}

func (c *call) serve() error {
	declared, err := c.prepared().declared.Find(c.info, c.req.Method)
	switch {
	case errors.Is(err, route.ErrMethod):
		return c.methodNotAllowed()
	case err != nil && !c.typed && c.info.Subresource != "" && c.R.subresource(c.info.Subresource) == nil:
		c.deprecated()
		return apierrors.NewNotFound(c.gr(), c.info.Name) // as kube-apiserver answers for custom resources
	case err != nil:
		return errNoPath
	}
	if c.info.Refusal != nil && (declared != nil || c.view == nil || c.info.Verb != "list" && c.info.Verb != "watch") {
		return c.info.Refusal // it is not narrowed
	}
	c.name = c.info.Name
	if c.R.Namespaced {
		c.namespace = c.info.Namespace
	}
	if l := request.LocalFrom(c.req); l != nil {
		c.which = l.Which
	}
	if err := c.checkSegments(); err != nil {
		return err
	}
	var revisions bool
	if c.past, revisions, err = c.asksPast(); err != nil {
		return err
	}
	c.deprecated()
	if declared != nil {
		return c.serveSubresource(declared.Name)
	}
	if revisions {
		return c.revisions()
	}
	if c.info.Verb == "watch" {
		return c.watch()
	}
	c.trace()
	switch c.info.Verb {
	case "get":
		return c.get()
	case "list":
		return c.list()
	case "create":
		return c.create()
	case "update":
		return c.update()
	case "patch":
		return c.patch()
	case "delete":
		return c.delete()
	case "deletecollection":
		return c.deleteCollection()
	}
	return c.methodNotAllowed()
}

// deprecated warns that the version is deprecated. It does not warn of a request in a media type that kube-apiserver's router refuses.
func (c *call) deprecated() {
	if d := c.V.Deprecation; d != nil && !c.unroutable() {
		request.AddWarning(c.req.Context(), d.Warning)
		request.AddAuditAnnotation(c.req.Context(), "k8s.io/deprecated", "true")
		if d.Removed != "" {
			request.AddAuditAnnotation(c.req.Context(), "k8s.io/removed-release", d.Removed)
		}
		if c.e.Deprecated != nil {
			c.e.Deprecated(c.req.Context(), c.GVR, c.info.Subresource, d.Removed)
		}
	}
}

func (c *call) serveSubresource(name string) error {
	c.sub = c.R.subresource(name)
	switch {
	case c.sub.Connect != "":
		return c.connect()
	case c.sub.Answer != nil:
		return c.delegate()
	case c.sub.Create != nil:
		c.trace()
		return c.createSubresource()
	}
	c.trace()
	switch c.info.Verb {
	case "get":
		return c.get()
	case "update":
		return c.update()
	default:
		return c.patch()
	}
}

// errNoPath is the answer to a path that is not served.
var errNoPath = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
	Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
}}

// NoPath returns the answer to a resource path that is not served.
func NoPath() error { return errNoPath }

func (c *call) methodNotAllowed() error {
	if c.typed {
		return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, c.req.Method, schema.GroupResource{}, "", "", 0, false)
	}
	if len(c.info.Parts) == 1 && c.info.InNamespace == c.R.Namespaced && (c.info.Verb == "update" || c.info.Verb == "patch") {
		if c.info.Verb == "patch" {
			if _, err := c.patchKind(); err != nil {
				return err
			}
		}
		return apierrors.NewBadRequest("name must be provided") // kube-apiserver looks for it before it looks for the method
	}
	return apierrors.NewMethodNotSupported(c.GVR.GroupResource(), c.info.Verb)
}

func key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// gr names the resource in errors.
func (ep *Endpoint) gr() schema.GroupResource { return ep.GVR.GroupResource() }

// storeError turns an error of the store into an API error.
func (ep *Endpoint) storeError(err error, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return apierrors.NewNotFound(ep.gr(), name)
	case errors.Is(err, store.ErrExists):
		return apierrors.NewAlreadyExists(ep.gr(), name)
	case errors.Is(err, store.ErrCompacted), errors.Is(err, store.ErrForgotten):
		return expired()
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("the request did not complete within its time", 1)
	case errors.Is(err, store.ErrNoSpace):
		return apierrors.NewInternalError(err)
	case errors.Is(err, store.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	return err
}

func everything(l labels.Selector, f fields.Selector) bool {
	return (l == nil || l.Empty()) && (f == nil || f.Empty())
}
