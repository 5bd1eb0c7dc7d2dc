package chaos

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// objects are those of a moment, by kind: "pods", "apps/deployments".
type objects map[string][]*unstructured.Unstructured

// id names an object among those of its kind.
func id(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// kindOf is the name of a kind.
func kindOf(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Group + "/" + r.Resource
}

// recorderGroup is the group of what each server says of itself alone: it is not stored, and differs from server to server.
const recorderGroup = "flightrecorder.kanzen.io"

// kinds are those that can be listed and watched and are stored, in the version that the server prefers.
func kinds(d discovery.DiscoveryInterface) ([]schema.GroupVersionResource, error) {
	lists, err := d.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch"}}, lists)
	found, err := discovery.GroupVersionResources(lists)
	if err != nil {
		return nil, err
	}
	var out []schema.GroupVersionResource
	for r := range found {
		if r.Group != recorderGroup {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupVersionResource) int { return strings.Compare(kindOf(a), kindOf(b)) })
	return out, nil
}

// listAt lists a kind as of a revision; empty: as it is now.
func listAt(ctx context.Context, c dynamic.Interface, kind schema.GroupVersionResource, revision string) ([]*unstructured.Unstructured, error) {
	options := metav1.ListOptions{Limit: 500, ResourceVersion: revision}
	if revision != "" {
		options.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	}
	var out []*unstructured.Unstructured
	for {
		list, err := c.Resource(kind).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list %s at %q: %w", kindOf(kind), revision, err)
		}
		for n := range list.Items {
			out = append(out, &list.Items[n])
		}
		if list.GetContinue() == "" {
			return out, nil
		}
		options = metav1.ListOptions{Limit: 500, Continue: list.GetContinue()}
	}
}

// everything lists all kinds.
func everything(ctx context.Context, c dynamic.Interface, of []schema.GroupVersionResource, revision string) (objects, error) {
	all := objects{}
	for _, kind := range of {
		list, err := listAt(ctx, c, kind, revision)
		if err != nil {
			return nil, err
		}
		all[kindOf(kind)] = list
	}
	return all, nil
}

// storedAt returns the keys of etcd with the revisions of their last changes as of its newest revision, which is returned as well.
func storedAt(ctx context.Context, e *clientv3.Client) (map[string]int64, string, error) {
	r, err := e.Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, "", fmt.Errorf("read etcd: %w", err)
	}
	keys := map[string]int64{}
	for _, kv := range r.Kvs {
		keys[string(kv.Key)] = kv.ModRevision
	}
	return keys, strconv.FormatInt(r.Header.Revision, 10), nil
}

// mirror is an informer of a kind at a server, which runs all the time.
type mirror struct {
	server   string
	kind     schema.GroupVersionResource
	informer cache.SharedIndexInformer

	mu     sync.Mutex
	seen   map[string]uint64 // the revision of each object
	faults []string          // what events must not do
	events int
}

// startMirrors starts an informer for each kind.
func startMirrors(ctx context.Context, server string, c dynamic.Interface, of []schema.GroupVersionResource) ([]*mirror, error) {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(c, 0)
	var out []*mirror
	for _, kind := range of {
		m := &mirror{server: server, kind: kind, informer: factory.ForResource(kind).Informer(), seen: map[string]uint64{}}
		if _, err := m.informer.AddEventHandler(m); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	factory.Start(ctx.Done())
	limited, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for kind, synced := range factory.WaitForCacheSync(limited.Done()) {
		if !synced {
			return nil, fmt.Errorf("the informer of %s at %s does not come to have what is there", kindOf(kind), server)
		}
	}
	return out, nil
}

// take judges an event: an object appears once, changes to newer revisions only, and goes once.
func (m *mirror) take(what string, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	o, ok := obj.(*unstructured.Unstructured)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events++
	if !ok {
		m.fault("an event has a %T", obj)
		return
	}
	revision, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	name := id(o)
	before, known := m.seen[name]
	switch {
	case what == "added" && known:
		m.fault("%s appeared at %d, and had at %d", name, revision, before)
	case what != "added" && !known:
		m.fault("%s was %s at %d, and had never appeared", name, what, revision)
	case revision < before:
		m.fault("%s was %s at %d after %d", name, what, revision, before)
	}
	if what == "deleted" {
		delete(m.seen, name)
		return
	}
	m.seen[name] = revision
}

func (m *mirror) fault(format string, args ...any) {
	if len(m.faults) < 10 {
		m.faults = append(m.faults, fmt.Sprintf("the informer of %s at %s: ", kindOf(m.kind), m.server)+fmt.Sprintf(format, args...))
	}
}

func (m *mirror) OnAdd(obj any, _ bool)  { m.take("added", obj) }
func (m *mirror) OnUpdate(_, newObj any) { m.take("changed", newObj) }
func (m *mirror) OnDelete(obj any)       { m.take("deleted", obj) }

// held are the objects that the informer has.
func (m *mirror) held() (out []*unstructured.Unstructured) {
	for _, obj := range m.informer.GetStore().List() {
		if o, ok := obj.(*unstructured.Unstructured); ok {
			out = append(out, o)
		}
	}
	return out
}
