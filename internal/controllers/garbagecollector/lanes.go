package garbagecollector

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/base/queue"
	"github.com/kanzen-io/kanzen/internal/controllers/remotes"
)

// laneWorkers is how many objects are looked at in parallel that need a resource of an extension server.
const laneWorkers = 2

// lanes are queues of objects, one for each resource of extension servers that must be asked about them.
type lanes struct {
	mu     sync.Mutex
	queues map[string]*queue.Queue // by the prefix of the resource's keys
}

// lane returns the lane in which an object is looked at; nil: no extension server is asked about it.
func (g *Collector) lane(ctx context.Context, n *node, o object) *queue.Queue {
	k := g.remoteNeeded(n, o)
	if k == nil {
		return nil
	}
	g.lanes.mu.Lock()
	defer g.lanes.mu.Unlock()
	q := g.lanes.queues[k.prefix]
	if q == nil {
		q = queue.New("garbage_collector_remote", g.Clock, g.Guard, g.Queues, g.Log)
		if g.lanes.queues == nil {
			g.lanes.queues = map[string]*queue.Queue{}
		}
		g.lanes.queues[k.prefix] = q
		g.running.Go(func() { q.Run(ctx, laneWorkers, g.act) })
	}
	return q
}

// remoteNeeded returns a resource of an extension server that must be asked about an object: its own, that of an owner,
// or that of a dependent which it must release.
func (g *Collector) remoteNeeded(n *node, o object) *kind {
	if o.remote != nil {
		return o.kind
	}
	switch {
	case n.orphaning():
		for _, d := range g.graph.dependents(n) {
			if of, ok := g.object(d.key); ok && of.remote != nil {
				return of.kind
			}
		}
	case n.links.Deleting:
	default:
		for i := range n.links.Owners {
			if k := g.ownerKind(&n.links.Owners[i]); k != nil && k.remote != nil {
				return k
			}
		}
	}
	return nil
}

// listing knows which resources of extension servers are followed, and since when they are waited for; zero: they were
// listed.
type listing struct {
	mu    sync.Mutex
	since map[schema.GroupResource]time.Time
}

// listGrace is how long the release of dependents waits for the first list of an extension server. Dependents that are
// not known by then are deleted rather than released.
const listGrace = 10 * time.Second

// errNotListed means that dependents in extension servers are not known yet.
var errNotListed = errors.New("an extension server is still being listed")

func (l *listing) set(gr schema.GroupResource, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == nil {
		l.since = map[schema.GroupResource]time.Time{}
	}
	l.since[gr] = since
}

func (l *listing) ended(gr schema.GroupResource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.since, gr)
}

// listed returns an error if dependents in extension servers that answer may become known soon.
func (g *Collector) listed() error {
	now := g.Clock.Now()
	g.listing.mu.Lock()
	defer g.listing.mu.Unlock()
	for _, k := range g.placesNow().byPrefix {
		if k.remote == nil || !k.remote.Current || !collected(k.remote) {
			continue
		}
		since, begun := g.listing.since[k.GroupResource()]
		if !begun || !since.IsZero() && now.Sub(since) < listGrace {
			return errNotListed
		}
	}
	return nil
}

// collected reports whether objects of a resource are dependents, as kube-controller-manager chooses them.
func collected(k *remotes.Kind) bool { return k.Can("list", "watch", "delete") }

// followRemotes brings the objects of extension servers into the graph until ctx ends.
func (g *Collector) followRemotes(ctx context.Context) {
	f := &remotes.Follower{
		Client: g.remote, Catalog: g.Catalog, Clock: g.Clock, Guard: g.Guard, Log: g.Log,
		Chosen: collected, Begin: g.beginRemote,
	}
	f.Run(ctx, nil)
}

// beginRemote returns the events of a resource of an extension server.
func (g *Collector) beginRemote(k *remotes.Kind) remotes.Events {
	gr := k.GroupResource()
	of := &kind{k.GroupVersionResource, k.Kind, k.Namespaced, remotePrefixOf(gr), k}
	g.listing.set(gr, g.Clock.Now())
	return remotes.Events{
		Listed: func(objects []remotes.Object) {
			there := make(map[string]bool, len(objects))
			for n := range objects {
				there[of.key(objects[n].Namespace, objects[n].Name)] = true
				g.graph.put(g.remoteNode(of, &objects[n]))
			}
			g.graph.missing(of.prefix, there, g.moment.Add(1))
			g.listing.set(gr, time.Time{})
		},
		Put:     func(o remotes.Object) { g.graph.put(g.remoteNode(of, &o)) },
		Deleted: func(o remotes.Object) { g.graph.vanished(of.key(o.Namespace, o.Name), g.moment.Add(1)) },
		End: func() {
			g.listing.ended(gr)
			g.graph.missing(of.prefix, nil, g.moment.Add(1))
		},
	}
}

func (g *Collector) remoteNode(k *kind, o *remotes.Object) *node {
	return &node{key: k.key(o.Namespace, o.Name), rev: g.moment.Add(1), version: o.ResourceVersion, links: o.Links, remote: true}
}
