package node

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
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
// whatever the number of nodes that use an object. Its methods are safe for concurrent use.
type Graph struct {
	mu sync.RWMutex
	// nodes counts, for each object, the paths from it to each node.
	nodes map[Ref]map[string]int
	// edges are the contributions of each pod, attachment, slice or request to nodes, needed to remove them when it changes or
	// is deleted.
	edges map[Ref]contribution
	// volumes are the claims and secrets of bound volumes.
	volumes map[string]volume
	// bySecret maps a secret to the volumes whose mount needs it.
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

// NewGraph creates an empty graph.
func NewGraph() *Graph {
	return &Graph{
		nodes: map[Ref]map[string]int{}, edges: map[Ref]contribution{},
		volumes: map[string]volume{}, bySecret: map[Ref]map[string]bool{},
	}
}

// SetPod records that a pod runs on a node and which objects of its own namespace it uses. An empty node removes the
// pod.
func (g *Graph) SetPod(namespace, name, node string, uses []Ref) {
	g.set(Ref{pod, namespace, name}, node, uses)
}

// DeletePod removes a pod.
func (g *Graph) DeletePod(namespace, name string) { g.set(Ref{pod, namespace, name}, "", nil) }

// SetAttachment records the node of a VolumeAttachment.
func (g *Graph) SetAttachment(name, node string) { g.set(Ref{attachment, "", name}, node, nil) }

// DeleteAttachment removes a VolumeAttachment.
func (g *Graph) DeleteAttachment(name string) { g.set(Ref{attachment, "", name}, "", nil) }

// SetSlice records the node of a ResourceSlice; empty: it has none.
func (g *Graph) SetSlice(name, node string) { g.set(Ref{slice, "", name}, node, nil) }

// DeleteSlice removes a ResourceSlice.
func (g *Graph) DeleteSlice(name string) { g.set(Ref{slice, "", name}, "", nil) }

// SetPodCertificate records the node of a PodCertificateRequest.
func (g *Graph) SetPodCertificate(namespace, name, node string) {
	g.set(Ref{podCertificate, namespace, name}, node, nil)
}

// DeletePodCertificate removes a PodCertificateRequest.
func (g *Graph) DeletePodCertificate(namespace, name string) {
	g.set(Ref{podCertificate, namespace, name}, "", nil)
}

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

// dropVolume removes a volume; g.mu is held.
func (g *Graph) dropVolume(name string) {
	for _, s := range g.volumes[name].secrets {
		if delete(g.bySecret[s], name); len(g.bySecret[s]) == 0 {
			delete(g.bySecret, s)
		}
	}
	delete(g.volumes, name)
}

// reaches reports whether an object belongs to a node.
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

// mounts reports whether a volume is bound to a claim of a node's pods.
func (g *Graph) mounts(volume, node string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	v, ok := g.volumes[volume]
	return ok && g.nodes[v.claim][node] > 0
}

// of returns the objects of a kind that may belong to a node. It looks at all objects: nodes do not ask for what they may see.
func (g *Graph) of(kind Kind, node string) (out []Ref) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for r, ways := range g.nodes {
		if r.Kind == kind && ways[node] > 0 {
			out = append(out, r)
		}
	}
	if kind == Secret {
		for r := range g.bySecret {
			out = append(out, r)
		}
	}
	return out
}
