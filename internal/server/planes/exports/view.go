package exports

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/kanzen-io/kanzen/internal/access/authz"
	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/crd"
	crdopenapi "github.com/kanzen-io/kanzen/internal/api/crd/openapi"
	"github.com/kanzen-io/kanzen/internal/api/discovery"
	"github.com/kanzen-io/kanzen/internal/api/openapi"
	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/chain"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/request/route"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/splice"
)

const (
	// restAfter is how long a view stays in memory after its last request, and restEvery how often it is looked for such ones.
	restAfter, restEvery = 5 * time.Minute, 30 * time.Second
	// viewMinWatch is the shortest time after which a watch that names no timeout ends.
	viewMinWatch = 30 * time.Minute
	// viewRequests is how many lists of a view are made at a time.
	viewRequests = 50
)

// view is what a provider sees of all planes, as an API that has the verbs list and watch.
type view struct {
	hash    string // of the offer that it is of
	handler http.Handler
	// one has the documents of a single plane: the same kinds, with all verbs.
	one    documents
	ctx    context.Context //nolint:containedctx // that in which its store runs, and with which its watches end
	cancel context.CancelFunc

	requests int       // under way; guarded by views.mu
	used     time.Time // when the last one ended; guarded by views.mu
}

// documents describe kinds.
type documents struct {
	discovery *discovery.Set
	openapi   http.Handler
}

// views are those in memory.
type views struct {
	mu      sync.Mutex
	all     map[ref]*view   // guarded by mu
	running context.Context // that of run; nil: nothing is served; guarded by mu
	ending  sync.WaitGroup  // the stores of views
}

var errNotServed = errors.New("exports are not served yet, or not any more")

// enter returns the view of an export, until leave is called.
func (v *views) enter(e *Exports, r ref, o *offer) (*view, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.running == nil || v.running.Err() != nil {
		return nil, errNotServed
	}
	if one := v.all[r]; one != nil {
		if one.hash == o.view {
			one.requests++
			return one, nil
		}
		one.cancel()
	}
	one, err := e.newView(v.running, o, r.name)
	if err != nil {
		delete(v.all, r)
		return nil, err
	}
	v.all[r] = one
	one.requests++
	return one, nil
}

// replace ends the view of what an export was before: its watches end, and go on by a new view.
func (v *views) replace(r ref, o *offer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one := v.all[r]; one != nil && (o == nil || one.hash != o.view) {
		one.cancel()
		delete(v.all, r)
	}
}

func (v *views) leave(e *Exports, one *view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	one.requests--
	one.used = e.Clock.Now()
}

// run lets views go that nobody uses, until ctx ends; then all.
func (v *views) run(ctx context.Context, e *Exports) {
	v.mu.Lock()
	v.running = ctx
	v.mu.Unlock()
	tick := e.Clock.NewTicker(restEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C():
			v.rest(e.Clock.Now())
		case <-ctx.Done():
			v.stop()
			v.ending.Wait()
			return
		}
	}
}

// stop has no view begin any more.
func (v *views) stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running = nil
}

func (v *views) rest(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for r, one := range v.all {
		if one.requests == 0 && now.Sub(one.used) > restAfter {
			one.cancel()
			delete(v.all, r)
		}
	}
}

// newView makes the view of an offer, which ends with ctx.
func (e *Exports) newView(ctx context.Context, o *offer, name string) (*view, error) {
	registry := prometheus.NewRegistry()
	custom := slices.Concat(o.definitions, o.claimed)
	core := e.claimedKinds(o)
	p := &projection{DB: e.DB, planes: e.Planes, open: e.open, records: recordsOf(o.plane.UID, name)}
	for _, d := range custom {
		p.add(GroupResource{d.Spec.Group, d.Spec.Names.Plural}, d.Spec.Group+"/"+d.Spec.Names.Plural+"/", d.Spec.Scope == apiextensionsv1.NamespaceScoped)
	}
	for _, r := range core {
		r.Namesakes, r.Subresources, r.Verbs = true, nil, slices.Clone(viewVerbs)
		p.add(GroupResource{r.Hub.Group, r.Plural}, r.Prefix+"/", r.Namespaced)
	}
	ctx, cancel := context.WithCancel(ctx)
	stored := store.NewCluster(o.revisions(p), store.Options{Prefix: viewPrefix, Clock: e.Clock, Guard: e.Guard, Log: e.Log, Caller: request.Storage{}})
	serving := catalog.New()
	eng := engine.New(engine.Config{
		Store: stored, Admit: admission.Chain(nil), Authorize: func(context.Context, *request.Info) error { return nil }, Types: e.Types,
		Clock: e.Clock, NewUID: uuid.NewString, NameSuffix: engine.NameSuffix, MinWatch: viewMinWatch, MaxBody: 1 << 20, Log: e.Log,
	})
	kinds := catalog.Builtin(eng, core, func(schema.GroupVersionResource) bool { return true })
	serving.Begin(kinds...)
	c := crd.Config{Engine: eng, Store: stored, Catalog: serving, Metrics: crd.NewMetrics(registry, e.Clock), Clock: e.Clock, Guard: e.Guard, Log: e.Log}
	if _, err := crd.NewFixed(c, fixed(custom, true)...); err != nil {
		cancel()
		return nil, err
	}
	one, many, err := e.documents(c, custom, kinds, serving)
	if err != nil {
		cancel()
		return nil, err
	}
	v := &view{hash: o.view, ctx: ctx, cancel: cancel, one: one, used: e.Clock.Now()}
	v.handler = chain.New(chain.Config{
		Handler:       many.around(serving),
		Authenticator: inprocess.Authenticator{}, Authorizer: allowed{},
		WriteError: engine.RefuseRequest, Log: e.Log, Clock: e.Clock, OnPanic: func(*http.Request) {}, MaxReading: viewRequests, MaxWriting: 1, Random: mathrand.Float64,
	})
	e.views.ending.Go(func() {
		if err := stored.Run(ctx); err != nil && ctx.Err() == nil {
			e.Log.Warn("a view of many planes has ended", "export", o.export.Name, "plane", o.plane.Name, "error", err)
		}
	})
	return v, nil
}

// revisions has a view count revisions as the provider's plane does: so they go on to grow when that moves to another log, and a client that
// knows one of before lists anew.
func (o *offer) revisions(db store.DB) store.DB {
	if o.by == 0 && o.since == 0 {
		return db
	}
	return splice.New(splice.Part{DB: db, By: o.by, Since: o.since})
}

// viewVerbs are those of a view of many planes.
var viewVerbs = []string{"list", "watch"}

func (p *projection) add(of GroupResource, prefix string, namespaced bool) {
	p.kinds = append(p.kinds, projected{of, prefix, namespaced})
}

// claimedKinds returns the built-in kinds of the claims of an offer.
func (e *Exports) claimedKinds(o *offer) (kinds []*engine.Resource) {
	if len(o.export.Spec.Claims) == 0 {
		return nil
	}
	for _, r := range builtin.Resources(builtin.Deps{Gates: e.Gates}) {
		if slices.ContainsFunc(o.export.Spec.Claims, func(c Claim) bool { return c.Group == r.Hub.Group && c.Resource == r.Plural }) && r.Prefix != "" {
			kinds = append(kinds, r)
		}
	}
	return kinds
}

// fixed are definitions of the view of many planes, or of a single one.
func fixed(definitions []*apiextensionsv1.CustomResourceDefinition, many bool) (all []crd.Fixed) {
	for _, d := range definitions {
		f := crd.Fixed{Definition: d}
		if many {
			f.Definition = withPlaneColumn(d)
			f.Finish = func(r *engine.Resource) {
				r.Namesakes, r.Subresources, r.Verbs = true, nil, slices.Clone(viewVerbs)
			}
		}
		all = append(all, f)
	}
	return all
}

// withPlaneColumn adds the plane to what kubectl shows of a kind, whose objects may have the same names.
func withPlaneColumn(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	d = d.DeepCopy()
	column := apiextensionsv1.CustomResourceColumnDefinition{Name: "Plane", Type: "string", JSONPath: `.metadata.annotations['planes\.kanzen\.io/plane']`}
	for n := range d.Spec.Versions {
		v := &d.Spec.Versions[n]
		if len(v.AdditionalPrinterColumns) == 0 {
			v.AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}}
		}
		v.AdditionalPrinterColumns = append([]apiextensionsv1.CustomResourceColumnDefinition{column}, v.AdditionalPrinterColumns...)
	}
	return d
}

// documents makes those of single planes, and of the view of many.
func (e *Exports) documents(c crd.Config, custom []*apiextensionsv1.CustomResourceDefinition, kinds []*catalog.Resource, serving *catalog.Live) (one, many documents, err error) {
	types, err := openapi.New(e.Clock.Now(), openapi.Served{})
	if err != nil {
		return one, many, err
	}
	builder := crdopenapi.NewBuilder(types)
	of := func(c *catalog.Catalog) documents {
		own := types.Alone(builder.Parts(c)...)
		return documents{discovery.New(nil, c.GroupVersions()), openapi.NewHandler(func() *openapi.Set { return own }, e.Log)}
	}
	c.Catalog = catalog.New()
	c.Catalog.Begin(kinds...)
	if _, err := crd.NewFixed(c, fixed(custom, false)...); err != nil {
		return one, many, err
	}
	return of(c.Catalog.Now()), of(serving.Now()), nil
}

// around serves the documents, and has resources served by another.
func (d documents) around(resources http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i := request.InfoFrom(r.Context()); i != nil && i.IsResource {
			resources.ServeHTTP(w, r)
			return
		}
		d.ServeHTTP(w, r)
	})
}

// ServeHTTP is part of http.Handler.
func (d documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/version":
		serveVersion(w)
	case strings.HasPrefix(path, "/openapi/"):
		d.openapi.ServeHTTP(w, r)
	default:
		found, err := d.discovery.Serve(w, r)
		if err != nil {
			engine.WriteError(w, r, schema.GroupVersion{}, err)
		} else if !found {
			route.NotFound(w)
		}
	}
}

func serveVersion(w http.ResponseWriter) { answer(w, version.Info()) }

// allowed allows everything: requests were authorized before they came to a view.
type allowed struct{}

// Authorize is part of authz.Authorizer.
func (allowed) Authorize(context.Context, *authz.Attributes) (authz.Decision, string, error) {
	return authz.Allow, "", nil
}

// nobody is the user of requests inside of a view, which have been authorized.
var nobody = &user.DefaultInfo{Name: "system:kanzen:view"}
