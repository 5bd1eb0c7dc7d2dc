package garbagecollector

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// node is an object that has owners, or whose deletion waits for its
// dependents. It is immutable: a changed object gets a new one.
type node struct {
	key   string // below the store's prefix, or after remotePrefix
	rev   int64  // of the log; that of an object of an extension server is the moment at which it was seen
	links engine.Links
	// remote: it is an object of an extension server, with this version.
	remote  bool
	version string
	// owners are the IDs of the owners as of the time when the node was added to
	// the graph, in the order of links.Owners.
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

// resourceVersion returns the version of the object; "" if it has none.
func (n *node) resourceVersion() string {
	if n.remote {
		return n.version
	}
	return strconv.FormatInt(n.rev, 10)
}

// relevant says that the graph must keep an object.
func (n *node) relevant() bool { return len(n.links.Owners) > 0 || n.foreground() || n.orphaning() }

// ownerID is an owner as its dependents name it: at a key ("": of a kind that is
// not served), with a UID. Both may be wrong.
type ownerID struct {
	key string
	uid types.UID
}

// owner is the state of an owner while it has dependents.
type owner struct {
	ownerID
	dependents map[string]*node // by key
	blocking   int              // dependents that block its deletion
	state      ownerState
	deletedAt  int64 // the revision at which its deletion was seen; 0: never
	// elsewhere says that the object exists, but not where its dependents name
	// it.
	elsewhere bool
}

type ownerState int

const (
	unknown    ownerState = iota // it was not looked up yet
	alive                        // it exists
	foreground                   // it exists and waits for the deletion of its dependents
	gone                         // it does not exist any more
)

// graph has the relations between owners and dependents, updated from the log.
// It contains only objects with owners, and the owners that they name.
type graph struct {
	// locate returns the key of an owner that an object names; "": its kind is
	// not served.
	locate func(ref *metav1.OwnerReference, of string) string
	// look queues the object at a key.
	look func(key string)

	mu     sync.Mutex // guards all below
	nodes  map[string]*node
	owners map[ownerID]*owner
	at     map[string][]*owner // by key
	// told are the keys that the log has reported during a scan: the scan's
	// values of them are older and are ignored. Nil: there is no scan.
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

// beginScan drops everything in the log: the scan reports all of its objects by scanned.
func (g *graph) beginScan() {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.nodes
	g.clear()
	g.told = map[string]bool{}
	for _, n := range before {
		if n.remote {
			again := *n
			g.take(&again)
		}
	}
}

// endScan queues the objects with owners that the scan has not found.
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

// scanned takes an object that a scan has found.
func (g *graph) scanned(n *node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.told[n.key] {
		g.take(n)
	}
}

// put takes a new or changed object.
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

// take adds an object to the graph.
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

// ownerIs updates an owner from the object at its key.
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

// link makes an object a dependent of the owners that it names; old is the
// object before the change, or nil.
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

// count adds by to the number of an owner's blocking dependents if d is one. An
// owner that waits is queued when there are none left.
func (g *graph) count(o *owner, d *node, by int) {
	if d == nil || !d.blocks(o.uid) {
		return
	}
	if o.blocking += by; o.blocking == 0 && o.state == foreground {
		g.look(o.key)
	}
}

// unlink removes an old object from the owners that the object there now (nil:
// none) does not name.
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

// deleted takes the deletion of an object.
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

// vanished takes what an extension server says of the deletion of an object. Dependents are looked at, and will ask for
// it.
func (g *graph) vanished(key string, moment int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.vanish(key, moment)
}

func (g *graph) vanish(key string, moment int64) {
	if n := g.nodes[key]; n != nil {
		g.unlink(n, nil)
		delete(g.nodes, key)
	}
	for _, o := range g.at[key] {
		if o.state != gone {
			o.state, o.deletedAt = unknown, moment
		}
		g.lookAtDependents(o)
	}
}

// missing takes all that an extension server has of a resource, as the keys that are there: others have vanished.
func (g *graph) missing(prefix string, there map[string]bool, moment int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var lost []string
	for key := range g.nodes {
		if strings.HasPrefix(key, prefix) && !there[key] {
			lost = append(lost, key)
		}
	}
	for key := range g.at {
		if strings.HasPrefix(key, prefix) && !there[key] && g.nodes[key] == nil {
			lost = append(lost, key)
		}
	}
	for _, key := range lost {
		g.vanish(key, moment)
	}
}

// node returns the object at a key, or nil.
func (g *graph) node(key string) *node {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[key]
}

// dependents returns the objects that name an object as their owner.
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

// blocked says that an object must wait for its dependents.
func (g *graph) blocked(n *node) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.owners[ownerID{n.key, n.links.UID}]
	return o != nil && o.blocking > 0
}

// relink locates the owners of an object again, unless it was replaced: the
// kind of an owner was not served before.
func (g *graph) relink(n *node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes[n.key] == n {
		again := *n
		g.nodes[n.key] = &again
		g.link(&again, n)
		g.unlink(n, &again)
	}
}

// state returns the known state of an owner.
func (g *graph) state(id ownerID) (state ownerState, elsewhere bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.owners[id]; o != nil {
		return o.state, o.elsewhere
	}
	return unknown, false
}

// found records the state of an owner at a revision. UIDs are never reused, so
// an owner that does not exist never will.
func (g *graph) found(id ownerID, state ownerState, elsewhere bool, rev int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.owners[id]; o != nil && o.deletedAt < rev && o.state == unknown {
		o.state, o.elsewhere = state, elsewhere
	}
}
