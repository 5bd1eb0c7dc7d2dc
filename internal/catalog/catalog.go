// Package catalog says who serves what: the one place that routing, discovery,
// admission, quotas and controllers ask. Sources put in what they serve, the
// built-in kinds at the start and custom resources whenever a definition changes;
// a Catalog is one state of it, immutable and swapped whole.
//
// It leaves to its users how a request is served (engine) and which requests a
// resource takes (route.Declared).
package catalog

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Resource is a resource of one group, in all versions that it is served in.
// It is immutable.
type Resource struct {
	schema.GroupResource
	Kind       string
	Namespaced bool
	Versions   []string // those that are served
	// Storage is the version in which the server itself reads and writes.
	Storage string
	// Custom says that a definition made it, and not this program.
	Custom bool
	// Listed says that discovery lists it. A custom resource is served a moment
	// before that.
	Listed bool
	// Endpoint serves one of the versions. Those of custom resources are made
	// when they are first asked for.
	Endpoint func(version string) (*engine.Endpoint, error)
	// View has the stored objects; nil: nothing is stored, or nobody has asked yet.
	View func() *store.View
	// Described is as much of the engine's Resource as discovery tells of a version.
	Described func(version string) *engine.Resource
}

// serves says whether a version is served.
func (r *Resource) serves(version string) bool { return slices.Contains(r.Versions, version) }

// Catalog is what is served at one time.
type Catalog struct {
	changes   int64
	resources btree.Map[string, *Resource] // by group/plural
	kinds     btree.Map[string, *Resource] // by group/kind/plural
}

func (c *Catalog) copy() *Catalog {
	return &Catalog{changes: c.changes + 1, resources: *c.resources.Copy(), kinds: *c.kinds.Copy()}
}

func resourceKey(gr schema.GroupResource) string { return gr.Group + "/" + gr.Resource }

func kindKey(group, kind, plural string) string { return group + "/" + kind + "/" + plural }

// Changes counts the states before this one.
func (c *Catalog) Changes() int64 { return c.changes }

// Resource returns a resource, nil if nothing serves it.
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

// Kind returns the resources that serve a kind, in the order of their names.
// There may be several: a kind's scale and reviews have resources of their own.
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

// All yields every resource, by group and name.
func (c *Catalog) All() func(yield func(*Resource) bool) {
	return func(yield func(*Resource) bool) {
		c.resources.Scan(func(_ string, r *Resource) bool { return yield(r) })
	}
}

// Live is the catalog as it changes. It is safe for concurrent use.
type Live struct {
	now atomic.Pointer[Catalog]
	// builtin has the groups of the resources that are always there.
	builtin map[string]bool
	mu      sync.Mutex // held while the next state is made
	// settle has a source take in all that is acknowledged.
	settle atomic.Pointer[func(ctx context.Context) error]
}

// New makes an empty catalog.
func New() *Live {
	l := &Live{builtin: map[string]bool{}}
	l.now.Store(&Catalog{})
	return l
}

// Begin puts in the resources that are always there. It is called once, before
// anything is served.
func (l *Live) Begin(resources ...*Resource) {
	for _, r := range resources {
		l.builtin[r.Group] = true
	}
	l.Put(resources...)
}

// Now is what is served at this moment.
func (l *Live) Now() *Catalog { return l.now.Load() }

// Changes counts what has changed, for what is derived from the catalog.
func (l *Live) Changes() int64 { return l.Now().changes }

// Put takes in resources that are new or have changed.
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
}

// Remove takes a resource out.
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
}

// SettleBy has Settle wait for a source that follows the log.
func (l *Live) SettleBy(f func(ctx context.Context) error) { l.settle.Store(&f) }

// Settle waits until the catalog has all that is acknowledged: what a client was
// told to be established is served.
func (l *Live) Settle(ctx context.Context) error {
	if f := l.settle.Load(); f != nil {
		return (*f)(ctx)
	}
	return nil
}

// Find returns a resource if it is served in a version. What is not there may
// just have come, so that is waited for; nil: it is not served.
func (l *Live) Find(ctx context.Context, gvr schema.GroupVersionResource) *Resource {
	if r := l.Now().Version(gvr); r != nil {
		return r
	}
	if gvr.Group == "" || l.Settle(ctx) != nil {
		return nil // all of the core group is built in
	}
	return l.Now().Version(gvr)
}
