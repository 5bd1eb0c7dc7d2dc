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
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/controllers/remotes"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/store"
)

// Config has the dependencies of a Collector.
type Config struct {
	Store   *store.Cluster
	Catalog *catalog.Live
	Client  *inprocess.Client
	Queues  *queue.Metrics // nil: the queue is not measured
	Clock   clock.WithTickerAndDelayedExecution
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
	remote *remotes.Client
	// running are the goroutines of Run.
	running sync.WaitGroup
	lanes   lanes
	listing listing
	// moment counts what is learned of extension servers, in place of revisions.
	moment atomic.Int64
}

// Run collects until ctx ends.
func Run(ctx context.Context, c Config) {
	g := &Collector{Config: c, graph: newGraph(), queue: queue.New("garbage_collector", c.Clock, c.Guard, c.Queues, c.Log), lost: make(chan struct{}, 1),
		scans: rate.NewLimiter(scansPerSecond, scansBurst), remote: remotes.NewClient(c.Client.Transport())}
	g.graph.locate, g.graph.look = g.locate, g.queue.Add
	defer g.queue.ShutDown() // the end may come before it runs
	defer c.Store.Tap(g)()
	defer g.running.Wait()
	g.running.Go(func() {
		if !g.scan(ctx) {
			return
		}
		g.running.Go(func() { g.followRemotes(ctx) })
		g.running.Go(func() { g.queue.Run(ctx, workers, g.look) })
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

// scan reads all stored objects, and returns false if ctx ends before it is done. It waits for the definitions of custom
// resources: what is stored may be owned by or be objects of them, also after a restart.
func (g *Collector) scan(ctx context.Context) bool {
	for {
		g.graph.beginScan()
		err := g.Catalog.Settle(ctx)
		if err == nil {
			err = g.scanStored(ctx)
		}
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

func (g *Collector) scanStored(ctx context.Context) error {
	return g.Store.Scan(ctx, "", func(key string, rev int64, value []byte) bool {
		if n := g.read(key, rev, value); n != nil {
			g.graph.scanned(n)
		}
		return true
	})
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
