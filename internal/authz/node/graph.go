package node

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Kind is a kind of object that nodes reach through their pods.
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
)

// Ref names an object; the namespace of cluster-wide kinds is empty.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

// Graph says which objects belong to which nodes: each pod leads from what it
// uses to the node it runs on, and a volume from its secrets to its claim. It
// is kept as the answer to the question, nodes by object, so that asking is a
// lookup and costs the same however many nodes use an object. Its methods are
// safe for concurrent use.
type Graph struct {
	mu sync.RWMutex
	// nodes counts, for each object, the ways that lead from it to each node.
	nodes map[Ref]map[string]int
	// edges are what a pod, attachment or slice contributed to nodes, to be
	// taken back when it changes or goes.
	edges map[Ref]contribution
	// volumes are the claims and secrets of the volumes that are bound.
	volumes map[string]volume
	// bySecret leads from a secret to the volumes that are mounted with it.
	bySecret map[Ref]map[string]bool
}

type contribution struct {
	node string
	refs []Ref
}

type volume struct {
	claim   Ref
	secrets []Ref
}

// NewGraph makes a graph of nothing.
func NewGraph() *Graph {
	return &Graph{
		nodes: map[Ref]map[string]int{}, edges: map[Ref]contribution{},
		volumes: map[string]volume{}, bySecret: map[Ref]map[string]bool{},
	}
}

// SetPod says that a pod runs on a node and what it uses, all in its own
// namespace. An empty node takes the pod out.
func (g *Graph) SetPod(namespace, name, node string, uses []Ref) {
	g.set(Ref{pod, namespace, name}, node, uses)
}

// DeletePod removes a pod.
func (g *Graph) DeletePod(namespace, name string) { g.set(Ref{pod, namespace, name}, "", nil) }

// SetAttachment says which node a VolumeAttachment is for.
func (g *Graph) SetAttachment(name, node string) { g.set(Ref{attachment, "", name}, node, nil) }

// DeleteAttachment removes a VolumeAttachment.
func (g *Graph) DeleteAttachment(name string) { g.set(Ref{attachment, "", name}, "", nil) }

// SetSlice says which node a ResourceSlice is of; empty: of none.
func (g *Graph) SetSlice(name, node string) { g.set(Ref{slice, "", name}, node, nil) }

// DeleteSlice removes a ResourceSlice.
func (g *Graph) DeleteSlice(name string) { g.set(Ref{slice, "", name}, "", nil) }

func (g *Graph) set(from Ref, node string, uses []Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old, ok := g.edges[from]; ok {
		for _, r := range old.refs {
			g.count(r, old.node, -1)
		}
		delete(g.edges, from)
	}
	if node == "" {
		return
	}
	c := contribution{node: node, refs: append(uses[:len(uses):len(uses)], from)}
	for _, r := range c.refs {
		g.count(r, node, 1)
	}
	g.edges[from] = c
}

// count adds to the ways from an object to a node; g.mu is held.
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

// SetVolume says which claim a volume is bound to, and with which secrets
// kubelets mount it.
func (g *Graph) SetVolume(pv *corev1.PersistentVolume) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropVolume(pv.Name)
	claim := pv.Spec.ClaimRef
	if claim == nil {
		return
	}
	v := volume{claim: Ref{Claim, claim.Namespace, claim.Name}, secrets: mountSecrets(pv)}
	g.volumes[pv.Name] = v
	for _, s := range v.secrets {
		if g.bySecret[s] == nil {
			g.bySecret[s] = map[string]bool{}
		}
		g.bySecret[s][pv.Name] = true
	}
}

// DeleteVolume removes a volume.
func (g *Graph) DeleteVolume(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropVolume(name)
}

// dropVolume is called with g.mu held.
func (g *Graph) dropVolume(name string) {
	for _, s := range g.volumes[name].secrets {
		if delete(g.bySecret[s], name); len(g.bySecret[s]) == 0 {
			delete(g.bySecret, s)
		}
	}
	delete(g.volumes, name)
}

// reaches says that an object belongs to a node.
func (g *Graph) reaches(r Ref, node string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.nodes[r][node] > 0 {
		return true
	}
	for name := range g.bySecret[r] {
		if g.nodes[g.volumes[name].claim][node] > 0 {
			return true
		}
	}
	return false
}

// mounts says that a volume is bound to a claim of a node's pods.
func (g *Graph) mounts(volume, node string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	v, ok := g.volumes[volume]
	return ok && g.nodes[v.claim][node] > 0
}
