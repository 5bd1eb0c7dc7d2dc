package fieldmanager

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
)

// versioned is a write in one version: the objects before and after, and what the change is.
type versioned struct {
	version   string
	live, obj runtime.Object
	types     *types
	// gone says that there is no such version any more.
	gone    bool
	differs [removed + 1]set
}

// changed returns the managers after a write. It reports false where the library is to be asked.
func (m *Manager) changed(w *walker, ms managers, live, obj runtime.Object, manager string) (managers, bool) {
	var err error
	own := versioned{version: m.version}
	if own.obj, err = w.versions.ConvertToVersion(obj, m.target); err != nil {
		return nil, false
	}
	if own.live, err = w.versions.ConvertToVersion(live, m.target); err != nil {
		return nil, false
	}
	if !m.compare(w, &own, true) {
		return nil, false
	}
	others := map[string]*versioned(nil)
	for i := range ms {
		v := &own
		if ms[i].version != own.version {
			if v = others[ms[i].version]; v == nil {
				if v = m.at(w, &own, ms[i].version); v == nil {
					return nil, false
				}
				if others == nil {
					others = map[string]*versioned{}
				}
				others[v.version] = v
			}
		}
		if v.gone {
			ms[i].fields = nil
			continue
		}
		s := ms[i].fields
		if !v.types.fits(v.types.get(&v.types.root), s, false) {
			return nil, false
		}
		ms[i].set(s.minus(v.differs[modified]).minus(v.differs[added]).minus(v.differs[removed]))
	}
	return m.claim(ms, &own, manager), true
}

// claim gives the manager of a write the fields that it has set, and drops managers that have none left.
func (m *Manager) claim(ms managers, own *versioned, manager string) managers {
	kept := ms[:0]
	for i := range ms {
		if len(ms[i].fields) > 0 {
			kept = append(kept, ms[i])
		}
	}
	fields := union(own.differs[modified], own.differs[added]).minus(stripped)
	if len(fields) == 0 {
		return kept
	}
	if manager == "" {
		manager = "unknown"
	}
	id := identity{manager: manager, version: m.version, subresource: m.Subresource}
	self := kept.find(id)
	if self == nil {
		kept = append(kept, managed{identity: id, version: m.version})
		self = &kept[len(kept)-1]
	}
	self.set(union(fields, self.fields))
	self.time = &metav1.Time{Time: m.Clock.Now().UTC()}
	return kept
}

// stripped are the fields that nobody manages.
var stripped = func() set {
	s := fieldpath.NewSet(fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"), fieldpath.MakePathOrDie("metadata"))
	for _, name := range []string{"name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion"} {
		s.Insert(fieldpath.MakePathOrDie("metadata", name))
	}
	out, _ := setOf(s)
	return out
}()

// compare finds what a write changes in a version. It reports false where the library is to be asked.
func (m *Manager) compare(w *walker, v *versioned, duplicates bool) bool {
	t, err := m.Types.TypeOf(v.obj)
	if err != nil {
		return false
	}
	if other, err := m.Types.TypeOf(v.live); err != nil || other != t {
		return false
	}
	v.types = m.typesOf(t)
	w.types = v.types
	root := v.types.get(&v.types.root)
	live, ok := m.load(w, root, v.live, duplicates)
	if !ok {
		return false
	}
	obj, ok := m.load(w, root, v.obj, duplicates)
	if !ok {
		return false
	}
	c := w.compare(root, &live, &obj)
	for i := range v.differs {
		v.differs[i] = m.filter(v.version, c.below[i])
	}
	return !w.odd
}

// load returns an object as a value. It reports false if the object is not of its type or cannot be walked.
func (m *Manager) load(w *walker, root *fieldType, obj runtime.Object, duplicates bool) (val, bool) {
	if u, ok := isUntyped(obj); ok {
		v := w.read(nil, u.Object)
		if u.Object == nil {
			w.odd = true
		}
		return v, !w.odd && w.valid(root, &v, duplicates) && !w.odd
	}
	rv := reflect.ValueOf(obj)
	t := apitype.Of(rv.Type())
	if t.Holds&apitype.HoldsForeign != 0 || t.Kind != apitype.Pointer {
		return val{}, false
	}
	return w.load(t, rv), !w.odd
}

func (m *Manager) typesOf(t *typed.ParseableType) *types {
	m.mu.Lock()
	defer m.mu.Unlock()
	ts := m.types[t]
	if ts == nil {
		ts = newTypes(t)
		m.types[t] = ts
	}
	return ts
}

// filter leaves out the fields that such a write never changes.
func (m *Manager) filter(version string, s set) set {
	if len(s) == 0 || !m.served[version] {
		return s
	}
	return s.without(m.reset)
}

// at compares the objects of a write in another version. It returns nil where the library is to be asked.
func (m *Manager) at(w *walker, own *versioned, version string) *versioned {
	v := &versioned{version: version}
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return nil
	}
	for _, c := range []struct {
		from runtime.Object
		to   *runtime.Object
	}{{own.live, &v.live}, {own.obj, &v.obj}} {
		*c.to, err = m.convert(w, c.from, gv)
		if err == nil {
			_, err = m.Types.TypeOf(*c.to)
		}
		if runtime.IsNotRegisteredError(err) {
			v.gone = true
			return v
		}
		if err != nil {
			return nil
		}
	}
	if !m.compare(w, v, false) {
		return nil
	}
	return v
}

func (m *Manager) convert(w *walker, obj runtime.Object, to schema.GroupVersion) (runtime.Object, error) {
	from := obj.GetObjectKind().GroupVersionKind().GroupVersion()
	if from == to {
		return obj, nil
	}
	hub := m.Hub
	if !m.Custom {
		hub.Group = from.Group
	}
	at, err := w.versions.ConvertToVersion(obj, hub)
	if err != nil {
		return nil, err
	}
	return w.versions.ConvertToVersion(at, to)
}
