package garbagecollector

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/controllers/remotes"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
)

// kind is a resource whose objects can be in the graph.
type kind struct {
	schema.GroupVersionResource // in the version in which objects are read and written
	name                        string
	namespaced                  bool
	prefix                      string        // of the keys of its objects
	remote                      *remotes.Kind // nil: it is in this server's store
}

// remotePrefix begins the keys of objects of extension servers, which are in the graph only.
const remotePrefix = "remote:"

func remotePrefixOf(gr schema.GroupResource) string {
	return remotePrefix + gr.Group + "/" + gr.Resource + "/"
}

// key returns the key of an object.
func (k *kind) key(namespace, name string) string {
	if k.namespaced {
		return k.prefix + namespace + "/" + name
	}
	return k.prefix + name
}

// places maps resources to the keys of their objects.
type places struct {
	changes  int64
	byPrefix map[string]*kind
}

// placesNow returns the places of what is served now.
func (g *Collector) placesNow() *places {
	now := g.Catalog.Now()
	if p := g.places.Load(); p != nil && p.changes == now.Changes() {
		return p
	}
	p := &places{changes: now.Changes(), byPrefix: map[string]*kind{}}
	for r := range now.All() {
		// Requests for what an extension server hides would reach that one.
		if prefix, gvr := r.Prefix(), r.WithVersion(now.Reached(r)); prefix != "" && now.Remote(gvr.GroupVersion()) == nil {
			p.byPrefix[prefix] = &kind{gvr, r.Kind, r.Namespaced, prefix, nil}
		}
	}
	for gr, r := range remotes.Kinds(now) {
		prefix := remotePrefixOf(gr)
		p.byPrefix[prefix] = &kind{r.GroupVersionResource, r.Kind, r.Namespaced, prefix, r}
	}
	g.places.Store(p)
	return p
}

// object identifies the object at a key.
type object struct {
	*kind
	namespace, object string
}

// object returns the object at a key; ok is false if its resource is not served.
func (g *Collector) object(key string) (o object, ok bool) {
	k, namespace, name, ok := catalog.Locate(key, g.placesNow().byPrefix, func(k *kind) bool { return k.namespaced })
	return object{k, namespace, name}, ok
}

func (o object) target() inprocess.Target {
	return inprocess.Target{Resource: o.GroupVersionResource}
}

// namespaceOf returns the namespace in a key. If the resource is not served, it goes by the form of the key.
func (g *Collector) namespaceOf(key string) string {
	o, _ := g.object(key)
	return o.namespace
}

// ownerKind returns the resource of an owner; nil: its kind is not served.
func (g *Collector) ownerKind(ref *metav1.OwnerReference) *kind {
	gvk, now, places := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), g.Catalog.Now(), g.placesNow()
	if r := now.Remote(gvk.GroupVersion()); r != nil {
		for _, resource := range r.Resources() {
			if resource.Kind == gvk.Kind {
				return places.byPrefix[remotePrefixOf(resource.GroupResource())]
			}
		}
		return nil
	}
	for _, r := range now.Kind(gvk) {
		if k := places.byPrefix[r.Prefix()]; k != nil {
			return k
		}
	}
	return nil
}

// locate returns the key of an owner that the object at a key names; "" if its kind is not served, or cannot own the
// object.
func (g *Collector) locate(ref *metav1.OwnerReference, of string) string {
	k := g.ownerKind(ref)
	switch {
	case k == nil:
		return ""
	case !k.namespaced:
		return k.key("", ref.Name)
	}
	if namespace := g.namespaceOf(of); namespace != "" {
		return k.key(namespace, ref.Name)
	}
	return ""
}
