// Package catalog lists the served resources. It is the only source for routing, discovery, admission, quotas and
// controllers. Sources add what they serve: the built-in kinds at the start, custom resources whenever a definition
// changes, groups and versions of extension servers (Remote) whenever an APIService does. A Catalog is one immutable state, and is replaced whole.
//
// Its users decide how a request is served (engine) and which requests a resource accepts (route.Declared).
package catalog

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Resource is a resource of one group, in all its served versions. It is immutable.
type Resource struct {
	schema.GroupResource
	Kind       string
	Namespaced bool
	Versions   []string // the served ones
	// Storage is the version in which the server itself reads and writes.
	Storage string
	// Custom is true for custom resources, false for built-in ones.
	Custom bool
	// Listed means that discovery lists it. A custom resource is served shortly before that.
	Listed bool
	// Endpoint returns the endpoint of a version, which is created on first use.
	Endpoint func(version string) (*engine.Endpoint, error)
	// View returns the stored objects; nil: nothing is stored, or it is a custom resource without an endpoint yet.
	View func() *store.View
	// Described returns the part of the engine's Resource that discovery uses for a version.
	Described func(version string) *engine.Resource
	// Definition is what defines a custom resource, for OpenAPI documents.
	Definition *Definition
}

// Definition provides a CustomResourceDefinition.
type Definition struct {
	// Hash returns what identifies its content: it changes whenever the spec or the accepted names do.
	Hash func() string
	// Load returns the definition. It is called whenever a document is generated; the result is not changed.
	Load func() (*apiextensionsv1.CustomResourceDefinition, error)
	// Connects are subresources that the definition does not name; Hash covers them.
	Connects []Connect
	// Verbs are those of the requests that it takes, all if there are none; Hash covers them.
	Verbs []string
}

// Connect describes a subresource that takes and gives anything.
type Connect struct {
	Name, Doc string
	Verbs     []string // of requests: get, create, update, patch, delete
	// Behind: there are paths below its own.
	Behind bool
}

// serves reports whether a version is served.
func (r *Resource) serves(version string) bool { return slices.Contains(r.Versions, version) }

// Catalog is the resources served at one time.
type Catalog struct {
	changes   int64
	resources btree.Map[string, *Resource] // by group/plural
	kinds     btree.Map[string, *Resource] // by group/kind/plural
	remotes   btree.Map[string, *Remote]   // by group/version
}

func (c *Catalog) copy() *Catalog {
	return &Catalog{changes: c.changes + 1, resources: *c.resources.Copy(), kinds: *c.kinds.Copy(), remotes: *c.remotes.Copy()}
}

func resourceKey(gr schema.GroupResource) string { return gr.Group + "/" + gr.Resource }

func kindKey(group, kind, plural string) string { return group + "/" + kind + "/" + plural }

// Changes returns the number of earlier states.
func (c *Catalog) Changes() int64 { return c.changes }

// Resource returns a resource, nil if it is not served.
func (c *Catalog) Resource(gr schema.GroupResource) *Resource {
	r, _ := c.resources.Get(resourceKey(gr))
	return r
}

// Version returns a resource if it is served in a version, nil otherwise.
func (c *Catalog) Version(gvr schema.GroupVersionResource) *Resource {
	if r := c.Resource(gvr.GroupResource()); r != nil && r.serves(gvr.Version) {
		return r
	}
	return nil
}

// Kind returns the resources that serve a kind, sorted by name. There may be several: for example, a kind may also be
// that of a subresource.
func (c *Catalog) Kind(gvk schema.GroupVersionKind) []*Resource {
	var out []*Resource
	prefix := kindKey(gvk.Group, gvk.Kind, "")
	c.kinds.Ascend(prefix, func(key string, r *Resource) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		if r.serves(gvk.Version) {
			out = append(out, r)
		}
		return true
	})
	return out
}

// All yields every resource, sorted by group and name.
func (c *Catalog) All() func(yield func(*Resource) bool) {
	return func(yield func(*Resource) bool) {
		c.resources.Scan(func(_ string, r *Resource) bool { return yield(r) })
	}
}

// ofGroup calls f for the resources of a group, sorted by name, until it returns false.
func (c *Catalog) ofGroup(group string, f func(*Resource) bool) {
	prefix := group + "/"
	c.resources.Ascend(prefix, func(key string, r *Resource) bool { return strings.HasPrefix(key, prefix) && f(r) })
}

// CustomVersions returns the versions of a group in which custom resources are served.
func (c *Catalog) CustomVersions(group string) []string {
	var out []string
	c.ofGroup(group, func(r *Resource) bool {
		for _, v := range r.Versions {
			if r.Custom && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
		return true
	})
	return out
}

// Live is the current catalog. It is safe for concurrent use.
type Live struct {
	now    atomic.Pointer[Catalog]
	places atomic.Pointer[places]
	// builtin are the groups of the resources that always exist, if some are served.
	builtin map[string]bool
	mu      sync.Mutex // held to create the next state
	// followers are the calls of Follow that are under way; guarded by mu.
	followers map[*store.Progress]bool
	// settle are the funcs of sources that wait until the source has processed all acknowledged writes. They are set before
	// anything is served.
	settle []func(ctx context.Context) error
	// changed is called with the group of each custom resource that was put or removed; set before anything is served.
	changed func(group string)
	// elsewhere serves a request that nobody serves here, if another server of the cluster does; set before anything is served.
	elsewhere func(w http.ResponseWriter, r *http.Request) bool
}

// New creates an empty catalog.
func New() *Live {
	l := &Live{builtin: map[string]bool{}, followers: map[*store.Progress]bool{}, elsewhere: func(http.ResponseWriter, *http.Request) bool { return false }}
	l.now.Store(&Catalog{})
	return l
}

// Begin adds resources that always exist. It is called before anything is served.
func (l *Live) Begin(resources ...*Resource) {
	for _, r := range resources {
		l.builtin[r.Group] = l.builtin[r.Group] || r.Listed
	}
	l.Put(resources...)
}

// Now returns the current catalog.
func (l *Live) Now() *Catalog { return l.now.Load() }

// Changes returns the number of changes, for values derived from the catalog.
func (l *Live) Changes() int64 { return l.Now().changes }

// Put adds or replaces resources.
func (l *Live) Put(resources ...*Resource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.Now().copy()
	for _, r := range resources {
		key := resourceKey(r.GroupResource)
		if old, ok := next.resources.Set(key, r); ok {
			next.kinds.Delete(kindKey(old.Group, old.Kind, old.Resource))
		}
		next.kinds.Set(kindKey(r.Group, r.Kind, r.Resource), r)
	}
	l.now.Store(next)
	for _, r := range resources {
		l.tell(r)
	}
}

// tell reports a change of a custom resource.
func (l *Live) tell(r *Resource) {
	if r.Custom && l.changed != nil {
		l.changed(r.Group)
	}
}

// OnCustom sets the func that is called with the group of each custom resource that is put or removed. It must not
// block. It is called once, before anything is served.
func (l *Live) OnCustom(f func(group string)) { l.changed = f }

// Remove removes a resource.
func (l *Live) Remove(gr schema.GroupResource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Now().Resource(gr) == nil {
		return
	}
	next := l.Now().copy()
	old, _ := next.resources.Delete(resourceKey(gr))
	next.kinds.Delete(kindKey(old.Group, old.Kind, old.Resource))
	l.now.Store(next)
	l.tell(old)
}

// SettleBy adds the func with which Settle waits for a source that follows the log. It is called before anything is
// served.
func (l *Live) SettleBy(f func(ctx context.Context) error) { l.settle = append(l.settle, f) }

// Settle waits until the catalog reflects all acknowledged writes, so that a resource is served once a client has seen
// its definition Established.
func (l *Live) Settle(ctx context.Context) error {
	for _, f := range l.settle {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}
