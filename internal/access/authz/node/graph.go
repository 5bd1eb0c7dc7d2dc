package node

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/access/authz"
)

// Kind is a kind of object that nodes access through their pods.
type Kind int

// Kinds.
const (
	Secret Kind = iota
	ConfigMap
	Claim // PersistentVolumeClaim
	ServiceAccount
	ResourceClaim
	pod
	attachment
	slice
	podCertificate // PodCertificateRequest
)

// Ref names an object; the namespace of cluster-scoped kinds is empty.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

// Graph says which objects belong to which nodes: each pod connects the objects it uses with its node, and a volume
// connects its secrets with its claim. The graph stores the answers, nodes by object, so a query is one lookup,
// whatever the number of nodes that use an object. Each change comes with its revision in the log, so that the graph can tell when
// what belongs to a node has changed last. Its methods are safe for concurrent use.
type Graph struct {
	// changes tells each node when what belongs to it has changed. It is called with mu held.
	changes *authz.Changes

	mu sync.RWMutex
	// nodes counts, for each object, the paths from it to each node.
	nodes map[Ref]map[string]int
	// edges are the contributions of each pod, attachment, slice or request to nodes, needed to remove them when it changes or
	// is deleted.
	edges map[Ref]contribution
	// shares are what belongs to each node to which something contributes.
	shares map[string]*share
	// none is the share of all other nodes. It has changed when one of them lost its share.
	none share
	// volumes are the claims and secrets of bound volumes.
	volumes map[string]volume
	// byClaim maps a claim to the volumes that need secrets to be mounted.
	byClaim map[Ref]map[string]bool
}

type contribution struct {
	node string
	refs []Ref
}

// share is what belongs to one node.
type share struct {
	from    map[Ref]bool // the keys of the edges that contribute to it
	rev     int64        // of its newest change
	version uint64       // the number of that change among all changes of rights
}

type volume struct {
	claim   Ref
	secrets []Ref
}

// NewGraph creates an empty graph, which tells of changes.
func NewGraph(changes *authz.Changes) *Graph {
	return &Graph{
		changes: changes, nodes: map[Ref]map[string]int{}, edges: map[Ref]contribution{}, shares: map[string]*share{},
		volumes: map[string]volume{}, byClaim: map[Ref]map[string]bool{},
	}
}

// SetPod records that a pod runs on a node and which objects of its own namespace it uses. An empty node removes the
// pod.
func (g *Graph) SetPod(rev int64, namespace, name, node string, uses []Ref) {
	g.set(rev, Ref{pod, namespace, name}, node, uses)
}

// DeletePod removes a pod.
func (g *Graph) DeletePod(rev int64, namespace, name string) {
	g.set(rev, Ref{pod, namespace, name}, "", nil)
}

// SetAttachment records the node of a VolumeAttachment.
func (g *Graph) SetAttachment(rev int64, name, node string) {
	g.set(rev, Ref{attachment, "", name}, node, nil)
}

// DeleteAttachment removes a VolumeAttachment.
func (g *Graph) DeleteAttachment(rev int64, name string) {
	g.set(rev, Ref{attachment, "", name}, "", nil)
}

// SetSlice records the node of a ResourceSlice; empty: it has none.
func (g *Graph) SetSlice(rev int64, name, node string) { g.set(rev, Ref{slice, "", name}, node, nil) }

// DeleteSlice removes a ResourceSlice.
func (g *Graph) DeleteSlice(rev int64, name string) { g.set(rev, Ref{slice, "", name}, "", nil) }

// SetPodCertificate records the node of a PodCertificateRequest.
func (g *Graph) SetPodCertificate(rev int64, namespace, name, node string) {
	g.set(rev, Ref{podCertificate, namespace, name}, node, nil)
}

// DeletePodCertificate removes a PodCertificateRequest.
func (g *Graph) DeletePodCertificate(rev int64, namespace, name string) {
	g.set(rev, Ref{podCertificate, namespace, name}, "", nil)
}

func (g *Graph) set(rev int64, from Ref, node string, uses []Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := contribution{node: node, refs: append(uses[:len(uses):len(uses)], from)}
	old, had := g.edges[from]
	if had && old.node == node && slices.Equal(old.refs, c.refs) {
		return
	}
	if had {
		for _, r := range old.refs {
			g.count(r, old.node, -1)
		}
		delete(g.edges, from)
		delete(g.shares[old.node].from, from)
		g.changed(old.node, rev)
	}
	if node == "" {
		return
	}
	for _, r := range c.refs {
		g.count(r, node, 1)
	}
	g.edges[from] = c
	if g.shares[node] == nil {
		g.shares[node] = &share{from: map[Ref]bool{}}
	}
	g.shares[node].from[from] = true
	g.changed(node, rev)
}

// changed notes that a node's share has changed, and drops it if nothing contributes to it; g.mu is held.
func (g *Graph) changed(node string, rev int64) {
	s := g.shares[node]
	s.rev, s.version = max(s.rev, rev), g.changes.TellOf(node)
	if len(s.from) == 0 {
		delete(g.shares, node)
		g.none.rev, g.none.version = max(g.none.rev, s.rev), s.version
	}
}

// ChangedAt is the revision since which the same belongs to a node, or a later one.
func (g *Graph) ChangedAt(node string) int64 {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.of(node).rev
}

// Version is another number after each change of what belongs to a node.
func (g *Graph) Version(node string) uint64 {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.of(node).version
}

// of returns the share of a node; g.mu is held.
func (g *Graph) of(node string) *share {
	if s := g.shares[node]; s != nil {
		return s
	}
	return &g.none
}

// count adds n to the number of paths from an object to a node; g.mu is held.
func (g *Graph) count(r Ref, node string, n int) {
	ways := g.nodes[r]
	if ways == nil {
		ways = map[string]int{}
		g.nodes[r] = ways
	}
	if ways[node] += n; ways[node] == 0 {
		delete(ways, node)
	}
	if len(ways) == 0 {
		delete(g.nodes, r)
	}
}

// SetVolume records the claim of a volume, and the secrets that kubelets need to mount it.
func (g *Graph) SetVolume(rev int64, pv *corev1.PersistentVolume) {
	g.mu.Lock()
	defer g.mu.Unlock()
	claim := pv.Spec.ClaimRef
	if claim == nil {
		g.dropVolume(rev, pv.Name)
		return
	}
	v := volume{claim: Ref{Claim, claim.Namespace, claim.Name}, secrets: mountSecrets(pv)}
	if old, had := g.volumes[pv.Name]; had && old.claim == v.claim && slices.Equal(old.secrets, v.secrets) {
		return
	}
	g.dropVolume(rev, pv.Name)
	g.volumes[pv.Name] = v
	if len(v.secrets) == 0 {
		return
	}
	if g.byClaim[v.claim] == nil {
		g.byClaim[v.claim] = map[string]bool{}
	}
	g.byClaim[v.claim][pv.Name] = true
	g.mounted(v.claim, rev)
}

// DeleteVolume removes a volume.
func (g *Graph) DeleteVolume(rev int64, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropVolume(rev, name)
}

// dropVolume removes a volume; g.mu is held.
func (g *Graph) dropVolume(rev int64, name string) {
	v := g.volumes[name]
	delete(g.volumes, name)
	if !g.byClaim[v.claim][name] {
		return
	}
	if delete(g.byClaim[v.claim], name); len(g.byClaim[v.claim]) == 0 {
		delete(g.byClaim, v.claim)
	}
	g.mounted(v.claim, rev)
}

// mounted notes that a claim's nodes need other secrets to mount it; g.mu is held.
func (g *Graph) mounted(claim Ref, rev int64) {
	for node := range g.nodes[claim] {
		g.changed(node, rev)
	}
}

// reaches reports whether an object belongs to a node.
func (g *Graph) reaches(r Ref, node string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.nodes[r][node] > 0 || r.Kind == Secret && slices.Contains(g.mountedBy(node), r)
}

// mountedBy returns the secrets that a node needs to mount the volumes of its pods; g.mu is held.
func (g *Graph) mountedBy(node string) (out []Ref) {
	if len(g.byClaim) == 0 {
		return nil
	}
	for from := range g.of(node).from {
		for _, r := range g.edges[from].refs {
			for name := range g.byClaim[r] {
				out = append(out, g.volumes[name].secrets...)
			}
		}
	}
	return out
}

// mounts reports whether a volume is bound to a claim of a node's pods.
func (g *Graph) mounts(volume, node string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	v, ok := g.volumes[volume]
	return ok && g.nodes[v.claim][node] > 0
}

// objects returns those of a kind that belong to a node, some of them more than once.
func (g *Graph) objects(kind Kind, node string) (out []Ref) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for from := range g.of(node).from {
		for _, r := range g.edges[from].refs {
			if r.Kind == kind {
				out = append(out, r)
			}
		}
	}
	if kind == Secret {
		out = append(out, g.mountedBy(node)...)
	}
	return out
}
