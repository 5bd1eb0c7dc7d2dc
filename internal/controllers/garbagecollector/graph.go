package garbagecollector

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// node is an object that has owners, or whose deletion waits for its
// dependents. It is immutable: a changed object gets a new one.
type node struct {
	key   string // below the store's prefix
	rev   int64
	links engine.Links
	// owners are where the owners were looked for when the graph took the node,
	// in the order of links.Owners.
	owners []ownerID
}

// foreground says that the object waits for the deletion of its dependents.
func (n *node) foreground() bool {
	return n.links.Deleting && n.links.Has(metav1.FinalizerDeleteDependents)
}

// orphaning says that the object waits for its dependents to be released.
func (n *node) orphaning() bool {
	return n.links.Deleting && n.links.Has(metav1.FinalizerOrphanDependents)
}

// blocks says that an owner waits for the object's deletion.
func (n *node) blocks(uid types.UID) bool {
	return slices.ContainsFunc(n.links.Owners, func(ref metav1.OwnerReference) bool {
		return ref.UID == uid && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
	})
}

// relevant says that there is something to do for an object, now or later.
func (n *node) relevant() bool { return len(n.links.Owners) > 0 || n.foreground() || n.orphaning() }

// ownerID is an owner as its dependents name it: at a key ("": of a kind that is
// not served), with a UID. They may be wrong, each in its own way.
type ownerID struct {
	key string
	uid types.UID
}

// owner is what is known of an owner while it has dependents.
type owner struct {
	ownerID
	dependents map[string]*node // by key
	blocking   int              // dependents that block its deletion
	state      ownerState
	deletedAt  int64 // the revision at which it was seen to go; 0: never
	// elsewhere says that there is such an object, but not where dependents say.
	elsewhere bool
}

type ownerState int

const (
	unknown    ownerState = iota // it must be looked for
	alive                        // it is there
	foreground                   // it is there and waits for the deletion of its dependents
	gone                         // it was there, and is no more
)

// graph is who owns whom, kept from the log. Only objects with owners, and the
// owners that they name, are in it.
type graph struct {
	// locate returns where an owner that an object names is; "": its kind is not
	// served.
	locate func(ref *metav1.OwnerReference, of string) string
	// look has the object at a key looked at.
	look func(key string)

	mu     sync.Mutex // guards all below
	nodes  map[string]*node
	owners map[ownerID]*owner
	at     map[string][]*owner // by key
	// told are the keys that the log told of while what there is was scanned:
	// what the scan says of them is older. Nil: there is no scan.
	told map[string]bool
}

func newGraph() *graph {
	g := &graph{}
	g.clear()
	return g
}

func (g *graph) clear() {
	g.nodes, g.owners, g.at = map[string]*node{}, map[ownerID]*owner{}, map[string][]*owner{}
}

// beginScan forgets everything: what there is comes by scanned.
func (g *graph) beginScan() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clear()
	g.told = map[string]bool{}
}

// endScan has the objects looked at whose owners were not among what was scanned.
func (g *graph) endScan() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told = nil
	for _, o := range g.owners {
		if o.state != alive {
			g.lookAtDependents(o)
		}
	}
}

// scanned is told of what a scan found.
func (g *graph) scanned(n *node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.told[n.key] {
		g.take(n)
	}
}

// put is told of an object that is new or changed.
func (g *graph) put(n *node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told != nil {
		g.told[n.key] = true
	}
	g.take(n)
}

// concerns says whether the graph has anything at a key.
func (g *graph) concerns(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.told != nil || g.nodes[key] != nil || g.at[key] != nil
}

// take puts an object in its place.
func (g *graph) take(n *node) {
	for _, o := range g.at[n.key] {
		g.ownerIs(o, n)
	}
	old := g.nodes[n.key]
	if n.relevant() {
		g.nodes[n.key] = n
		g.link(n, old)
	} else {
		delete(g.nodes, n.key)
	}
	if old != nil {
		g.unlink(old, n)
	}
	if n.orphaning() || n.foreground() {
		g.look(n.key)
	}
}

// ownerIs takes note of what is at the key of an owner.
func (g *graph) ownerIs(o *owner, n *node) {
	was := o.state
	switch {
	case o.uid != n.links.UID:
		if was == alive || was == foreground {
			o.state, o.deletedAt = gone, n.rev
		}
	case n.foreground():
		o.state = foreground
	default:
		o.state = alive
	}
	if o.state != was && o.state != alive {
		g.lookAtDependents(o)
	}
}

func (g *graph) lookAtDependents(o *owner) {
	for key := range o.dependents {
		g.look(key)
	}
}

// link makes an object a dependent of the owners that it names; old (nil:
// nothing) was there before.
func (g *graph) link(n, old *node) {
	n.owners = make([]ownerID, len(n.links.Owners))
	for i := range n.links.Owners {
		ref := &n.links.Owners[i]
		id := ownerID{g.locate(ref, n.key), ref.UID}
		n.owners[i] = id
		o := g.owners[id]
		if o == nil {
			o = &owner{ownerID: id, dependents: map[string]*node{}}
			g.owners[id] = o
			g.at[id.key] = append(g.at[id.key], o)
			if there := g.nodes[id.key]; there != nil {
				g.ownerIs(o, there)
			}
		}
		g.count(o, o.dependents[n.key], -1)
		g.count(o, n, 1)
		o.dependents[n.key] = n
		known := old != nil && old.links.UID == n.links.UID && slices.Contains(old.owners, id)
		if o.state != alive && !known && g.told == nil {
			g.look(n.key)
		}
	}
}

// count counts a dependent, or counts it no more. An owner that waits for the
// last one to go may go on.
func (g *graph) count(o *owner, d *node, by int) {
	if d == nil || !d.blocks(o.uid) {
		return
	}
	if o.blocking += by; o.blocking == 0 && o.state == foreground {
		g.look(o.key)
	}
}

// unlink takes what was at a key from the owners that what is there now (nil:
// nothing) does not name.
func (g *graph) unlink(old, now *node) {
	for _, id := range old.owners {
		o := g.owners[id]
		if o == nil || now != nil && slices.Contains(now.owners, id) || o.dependents[old.key] == nil {
			continue
		}
		g.count(o, o.dependents[old.key], -1)
		delete(o.dependents, old.key)
		if len(o.dependents) == 0 {
			g.forget(o)
		}
	}
}

func (g *graph) forget(o *owner) {
	delete(g.owners, o.ownerID)
	rest := slices.DeleteFunc(g.at[o.key], func(other *owner) bool { return other == o })
	if len(rest) == 0 {
		delete(g.at, o.key)
	} else {
		g.at[o.key] = rest
	}
}

// deleted is told of the end of an object.
func (g *graph) deleted(key string, rev int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told != nil {
		g.told[key] = true
	}
	if n := g.nodes[key]; n != nil {
		g.unlink(n, nil)
		delete(g.nodes, key)
	}
	for _, o := range g.at[key] {
		o.state, o.deletedAt = gone, rev
		g.lookAtDependents(o)
	}
}

// node returns the object at a key, or nil.
func (g *graph) node(key string) *node {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[key]
}

// dependents are the objects that name an object as their owner.
func (g *graph) dependents(of *node) []*node {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.owners[ownerID{of.key, of.links.UID}]
	if o == nil {
		return nil
	}
	out := make([]*node, 0, len(o.dependents))
	for _, d := range o.dependents {
		out = append(out, d)
	}
	return out
}

// blocked says that an object must wait for dependents.
func (g *graph) blocked(n *node) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.owners[ownerID{n.key, n.links.UID}]
	return o != nil && o.blocking > 0
}

// relink looks for the owners of an object again, if it is what is there still:
// the kind of one was not served before.
func (g *graph) relink(n *node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes[n.key] == n {
		again := &node{key: n.key, rev: n.rev, links: n.links}
		g.nodes[n.key] = again
		g.link(again, n)
		g.unlink(n, again)
	}
}

// state is what is known of an owner.
func (g *graph) state(id ownerID) (state ownerState, elsewhere bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.owners[id]; o != nil {
		return o.state, o.elsewhere
	}
	return unknown, false
}

// found takes note of what an owner was at a revision. UIDs are never used
// again, so one that is not there will not come.
func (g *graph) found(id ownerID, state ownerState, elsewhere bool, rev int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.owners[id]; o != nil && o.deletedAt < rev && o.state == unknown {
		o.state, o.elsewhere = state, elsewhere
	}
}
