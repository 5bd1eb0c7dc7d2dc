package fieldmanager

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Object is an object with managers.
type Object interface {
	runtime.Object
	metav1.Object
}

// Types tells what the fields of objects are.
type Types interface {
	managedfields.TypeConverter
	// TypeOf returns the type of an object. The same type is the same pointer.
	TypeOf(runtime.Object) (*typed.ParseableType, error)
}

// Versions converts objects between the versions of a kind.
type Versions interface {
	runtime.ObjectConvertor
	runtime.ObjectDefaulter
	runtime.ObjectCreater
}

// Config says what a Manager is for: one way of writing a kind.
type Config struct {
	Types Types
	// Versions returns the versions for one write. Another server may convert objects: that ends with ctx.
	Versions    func(ctx context.Context) Versions
	Kind        schema.GroupVersionKind // the version that is written
	Hub         schema.GroupVersion     // that of the objects passed to a Manager
	Subresource string
	// Custom is set for custom resources: their hub is of their own group, and fields managed at a version that is gone are
	// kept.
	Custom bool
	// Served are the versions for which the fields in Reset, which such writes never change, are left out.
	Served []schema.GroupVersion
	Reset  *fieldpath.Set
	Clock  clock.PassiveClock
}

// Manager keeps the managers of objects. It is safe for concurrent use.
type Manager struct {
	Config
	version string
	reset   set
	filters map[fieldpath.APIVersion]fieldpath.Filter // of the library
	// served are the versions for which there is a filter.
	served map[string]bool
	target runtime.GroupVersioner // the version that is written

	walkers sync.Pool
	mu      sync.Mutex
	types   map[*typed.ParseableType]*types // guarded by mu
}

// New returns a Manager.
func New(c Config) (*Manager, error) {
	m := &Manager{Config: c, filters: map[fieldpath.APIVersion]fieldpath.Filter{}, version: c.Kind.GroupVersion().String(), types: map[*typed.ParseableType]*types{}, served: map[string]bool{}, target: c.Kind.GroupVersion()}
	if c.Reset != nil {
		m.reset, _ = setOf(c.Reset) // of names
		filter := fieldpath.NewExcludeSetFilter(c.Reset)
		for _, v := range c.Served {
			m.served[v.String()] = true
			m.filters[fieldpath.APIVersion(v.String())] = filter
		}
	}
	_, err := m.library(c.Versions(context.Background())) // an error now, and not at the first write that needs it
	return m, err
}

// library returns apimachinery's manager for one write. It is made for each, because its conversions have no context of their
// own; it keeps nothing between writes.
func (m *Manager) library(v Versions) (*managedfields.FieldManager, error) {
	make := managedfields.NewDefaultFieldManager
	if m.Custom {
		make = managedfields.NewDefaultCRDFieldManager
	}
	return make(m.Types, v, v, v, m.Kind, m.Hub, m.Subresource, m.filters)
}

// Update notes in obj, which is to replace live, who has set which fields. On a creation live is empty. If that fails, obj
// has the managers of live. The only error is that of an object that has no form in JSON.
func (m *Manager) Update(ctx context.Context, live, obj Object, manager string) (runtime.Object, error) {
	versions := m.Versions(ctx)
	if m.update(versions, live, obj, manager) {
		return obj, nil
	}
	return m.updateByLibrary(versions, live, obj, manager)
}

// updateByLibrary turns the library's panics into errors: it panics over what JSON cannot hold, which a client can send in
// protobuf, such as a RawExtension of other bytes or an IntOrString that is neither.
func (m *Manager) updateByLibrary(v Versions, live, obj Object, manager string) (out runtime.Object, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("the object has no form in JSON: %v", p)
		}
	}()
	library, err := m.library(v)
	if err != nil {
		return nil, err
	}
	return library.UpdateNoErrors(live, obj, manager), nil
}

// update gives obj its managers. Where the library is to be asked it reports false and leaves obj as it is.
func (m *Manager) update(v Versions, live, obj Object, manager string) bool {
	w := m.walker(v)
	defer m.release(w)
	managers := m.begin(w, live, obj)
	if w.odd {
		return false
	}
	if len(managers) == 0 && live.GetUID() != "" {
		obj.SetManagedFields(nil) // nobody has managed the object from its creation on
		return true
	}
	// What is compared has no managers.
	putBack := withoutManagers(obj)
	managers, ok := m.changed(w, managers, live, obj, manager)
	if !ok || w.odd {
		putBack()
		return false
	}
	w.put(obj, managers.capUpdaters())
	return true
}

// put gives an object its managers.
func (w *walker) put(obj Object, ms managers) {
	if u, ok := isUntyped(obj); ok {
		w.putUntyped(u, ms)
		return
	}
	obj.SetManagedFields(w.encode(ms))
}

// withoutManagers takes the managers off an object, and returns a func that puts them back.
func withoutManagers(obj Object) (putBack func()) {
	if u, ok := isUntyped(obj); ok {
		meta, _ := u.Object["metadata"].(map[string]any)
		sent, had := meta["managedFields"]
		delete(meta, "managedFields")
		return func() {
			if had {
				meta["managedFields"] = sent
			}
		}
	}
	sent := obj.GetManagedFields()
	obj.SetManagedFields(nil)
	return func() { obj.SetManagedFields(sent) }
}

func (m *Manager) walker(v Versions) *walker {
	w, ok := m.walkers.Get().(*walker)
	if !ok {
		w = &walker{}
	}
	w.versions = v
	return w
}

func (m *Manager) release(w *walker) {
	w.clear()
	w.versions = nil // it has the context of the request
	m.walkers.Put(w)
}

// maxJSON is up to which size the memory for a set that is written is kept for the next.
const maxJSON = 1 << 16

// clear lets a walker be used again.
func (w *walker) clear() {
	for i := range w.stack {
		w.stack[i] = emptied(w.stack[i])
	}
	w.nodes.empty()
	w.key.empty()
	*w = walker{stack: w.stack, nodes: w.nodes, key: w.key, json: w.json[:0], names: emptied(w.names), items: emptied(w.items)}
	if cap(w.json) > maxJSON {
		w.json = nil
	}
}

// begin returns the managers that a write starts from: those that were sent, or else those of the live object. No write of
// a subresource sends managers.
func (m *Manager) begin(w *walker, live, obj Object) managers {
	if m.Subresource == "" {
		if isReset(obj) {
			return nil
		}
		if out, err := w.managersOf(obj); err == nil && len(out) > 0 {
			return out
		}
	}
	out, err := w.managersOf(live)
	if err != nil {
		return nil
	}
	return out
}

// isReset reports whether a client asks for there to be no managers.
func isReset(obj Object) bool {
	if u, ok := isUntyped(obj); ok {
		if entries, _ := untypedEntries(u); len(entries) > 0 {
			if e, _ := entries[0].(map[string]any); e["operation"] == "Update" || e["operation"] == "Apply" {
				return false
			}
		}
	}
	switch sent := obj.GetManagedFields(); len(sent) {
	case 0:
		return sent != nil
	case 1:
		return reflect.DeepEqual(sent[0], metav1.ManagedFieldsEntry{})
	}
	return false
}

// isUntyped reports whether an object is untyped, and returns it.
func isUntyped(obj runtime.Object) (*unstructured.Unstructured, bool) {
	u, ok := obj.(*unstructured.Unstructured)
	return u, ok
}
