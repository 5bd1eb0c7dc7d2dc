// Package garbagecollector deletes objects whose owners are gone, and takes care of the dependents of objects that are
// deleted in the foreground or leave them behind (orphans): what kube-controller-manager's garbage collector does.
//
// It learns the owners of objects from the log itself (store.Tap), from a few bytes of their metadata, after one scan
// of all stored objects. So it loads no views and polls nothing, and an object without owners costs only a short look
// at each of its writes. Because the log is in order, the dependents of an object are known when its deletion is.
package garbagecollector

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/catalog"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/guard"
	"github.com/kanzen-io/kanzen/internal/inprocess"
	"github.com/kanzen-io/kanzen/internal/queue"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Config has the dependencies of a Collector.
type Config struct {
	Store   *store.Store
	Catalog *catalog.Live
	Client  *inprocess.Client
	Clock   clock.WithTicker
	Guard   *guard.Guard
	Log     *slog.Logger
}

// workers is how many objects are looked at in parallel, the same as in kube-controller-manager.
const workers = 20

// Collector is the garbage collector.
type Collector struct {
	Config
	graph  *graph
	queue  *queue.Queue // of keys
	places atomic.Pointer[places]
	lost   chan struct{} // events are missing
	warned warnings
	scans  *rate.Limiter
}

// Run collects until ctx ends.
func Run(ctx context.Context, c Config) {
	g := &Collector{Config: c, graph: newGraph(), queue: queue.New("garbage_collector", c.Clock, c.Guard, c.Log), lost: make(chan struct{}, 1),
		scans: rate.NewLimiter(scansPerSecond, scansBurst)}
	g.graph.locate, g.graph.look = g.locate, g.queue.Add
	defer c.Store.Tap(g)()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		if !g.scan(ctx) {
			return
		}
		for range workers {
			running.Go(func() { g.queue.Run(ctx, g.look) })
		}
		for {
			select {
			case <-g.lost:
				g.scan(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
}

// retryAfter is the pause before another scan after one failed.
const retryAfter = time.Second

// scan reads all stored objects, and returns false if ctx ends before it is done.
func (g *Collector) scan(ctx context.Context) bool {
	for {
		g.graph.beginScan()
		err := g.Store.Scan(ctx, "", func(key string, rev int64, value []byte) bool {
			if n := g.read(key, rev, value); n != nil {
				g.graph.scanned(n)
			}
			return true
		})
		if err == nil {
			g.graph.endScan()
			return true
		}
		if ctx.Err() == nil {
			g.Log.Warn("garbage collection could not read what is stored, trying again", "error", err)
		}
		select {
		case <-g.Clock.After(retryAfter):
		case <-ctx.Done():
			return false
		}
	}
}

// Put is part of store.Tap.
func (g *Collector) Put(key string, rev int64, value []byte) {
	if n := g.read(key, rev, value); n != nil {
		g.graph.put(n)
	}
}

// Deleted is part of store.Tap.
func (g *Collector) Deleted(key string, rev int64) { g.graph.deleted(key, rev) }

// Lost is part of store.Tap.
func (g *Collector) Lost() {
	select {
	case g.lost <- struct{}{}:
	default: // a scan is due already
	}
}

var ownerReferences, dependentsFinalizer, orphanFinalizer = []byte("ownerReferences"), []byte(metav1.FinalizerDeleteDependents), []byte(`"` + metav1.FinalizerOrphanDependents + `"`)

// read makes a node of a stored value; nil: it is not an object, or not relevant.
func (g *Collector) read(key string, rev int64, value []byte) *node {
	if len(value) > 0 && value[0] == '{' && !g.graph.concerns(key) &&
		!bytes.Contains(value, ownerReferences) && !bytes.Contains(value, dependentsFinalizer) && !bytes.Contains(value, orphanFinalizer) {
		return nil // saves parsing JSON without owners and finalizers
	}
	links, err := engine.LinksOf(value)
	if err != nil || ignored(key) {
		return nil
	}
	return &node{key: key, rev: rev, links: links}
}

// ignored says that an object is never collected: events expire by themselves.
func ignored(key string) bool { return strings.HasPrefix(key, "events/") }

// places maps resources to the keys under which their objects are stored.
type places struct {
	changes  int64
	byPrefix map[string]*catalog.Resource
}

// placesNow returns the places of what is served now.
func (g *Collector) placesNow() *places {
	now := g.Catalog.Now()
	if p := g.places.Load(); p != nil && p.changes == now.Changes() {
		return p
	}
	p := &places{changes: now.Changes(), byPrefix: map[string]*catalog.Resource{}}
	for r := range now.All() {
		if prefix := prefixOf(r); prefix != "" {
			p.byPrefix[prefix] = r
		}
	}
	g.places.Store(p)
	return p
}

// prefixOf returns the key prefix of a resource's objects; "" if they are not stored.
func prefixOf(r *catalog.Resource) string {
	if d := r.Described(r.Storage); d != nil && d.Prefix != "" {
		return d.Prefix + "/"
	}
	return ""
}

// object identifies the object at a key.
type object struct {
	resource        *catalog.Resource
	namespace, name string
}

// object returns the object at a key; ok is false if its resource is not served.
func (g *Collector) object(key string) (o object, ok bool) {
	at := 0
	for range 2 { // a prefix has one segment or two
		n := strings.IndexByte(key[at:], '/')
		if n < 0 {
			return o, false
		}
		at += n + 1
		r := g.placesNow().byPrefix[key[:at]]
		if r == nil {
			continue
		}
		namespace, name, namespaced := strings.Cut(key[at:], "/")
		if namespaced != r.Namespaced {
			continue
		}
		if !namespaced {
			namespace, name = "", namespace
		}
		return object{r, namespace, name}, true
	}
	return o, false
}

func (o object) target() inprocess.Target {
	return inprocess.Target{Resource: o.resource.WithVersion(o.resource.Storage), Namespace: o.namespace, Name: o.name}
}

// namespaceOf returns the namespace in a key. If the resource is not served, it goes by the form of the key.
func (g *Collector) namespaceOf(key string) string {
	o, _ := g.object(key)
	return o.namespace
}

// ownerResource returns the resource of an owner; nil: its kind is not served.
func (g *Collector) ownerResource(ref *metav1.OwnerReference) *catalog.Resource {
	for _, r := range g.Catalog.Now().Kind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)) {
		if prefixOf(r) != "" {
			return r
		}
	}
	return nil
}

// locate returns the key of an owner that the object at a key names; "" if its kind is not served, or cannot own the
// object.
func (g *Collector) locate(ref *metav1.OwnerReference, of string) string {
	r := g.ownerResource(ref)
	switch {
	case r == nil:
		return ""
	case !r.Namespaced:
		return prefixOf(r) + ref.Name
	}
	if namespace := g.namespaceOf(of); namespace != "" {
		return prefixOf(r) + namespace + "/" + ref.Name
	}
	return ""
}
