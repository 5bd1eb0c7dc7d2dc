package fieldmanager

import (
	"context"
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// lastApplied is the annotation in which kubectl keeps what it has applied on the client's side. Server-side apply keeps
	// it true.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	// beforeFirst is who manages what an object had before something was applied to it.
	beforeFirst = "before-first-apply"
)

// Apply merges what a manager applies into the live object, and returns the outcome, which may share memory with what is
// applied.
func (m *Manager) Apply(ctx context.Context, live Object, applied *unstructured.Unstructured, manager string, force bool) (runtime.Object, error) {
	versions := m.Versions(ctx)
	if obj, err := m.apply(versions, live, applied, manager, force); obj != nil || err != nil {
		return obj, err
	}
	library, err := m.library(versions)
	if err != nil {
		return nil, err
	}
	return library.Apply(live.DeepCopyObject(), applied, manager, force)
}

// apply does an apply without the library. It returns nothing where the library is to be asked. The only error is that of a
// conflict; the library refuses what is to be refused for other reasons.
func (m *Manager) apply(v Versions, live Object, applied *unstructured.Unstructured, manager string, force bool) (runtime.Object, error) {
	if applied.GroupVersionKind() != m.Kind || managesItself(applied) {
		return nil, nil
	}
	if manager == "kubectl" && (live.GetAnnotations()[lastApplied] != "" || applied.GetAnnotations()[lastApplied] != "") {
		return nil, nil
	}
	w := m.walker(v)
	defer m.release(w)
	a := application{m: m, w: w, live: live, force: force, self: identity{manager: manager, subresource: m.Subresource, applied: true}}
	if manager == "" {
		a.self.manager = "unknown"
	}
	if !a.begin(applied) || !a.merge() {
		return nil, nil
	}
	if err := a.manage(); err != nil {
		return nil, err
	}
	return a.end()
}

// managesItself reports whether a configuration says something about managers.
func managesItself(applied *unstructured.Unstructured) bool {
	meta, ok := applied.Object["metadata"].(map[string]any)
	_, has := meta["managedFields"]
	return has || !ok
}

// application is one apply.
type application struct {
	m     *Manager
	w     *walker
	live  Object
	force bool

	root     *fieldType
	managers managers
	self     identity
	last     set // what the manager has applied last time
	fields   set // what it applies now
	config   val
	now      val    // of out
	out      Object // in the version that is applied, without managers
	copied   bool   // out is a copy of live, and else converted
	differs  [removed + 1]set
}

// begin reads the managers, the object and the configuration. It reports false where the library is to be asked.
func (a *application) begin(applied *unstructured.Unstructured) bool {
	m, w := a.m, a.w
	var err error
	if a.managers, err = w.managersOf(a.live); err != nil || w.odd {
		return false
	}
	if len(a.managers) == 0 && !a.beforeFirst() {
		return false
	}
	versioned, err := w.versions.ConvertToVersion(a.live, m.target)
	if err != nil {
		return false
	}
	t, err := m.Types.TypeOf(versioned)
	if err != nil {
		return false
	}
	if other, err := m.Types.TypeOf(applied); err != nil || other != t {
		return false
	}
	w.types = m.typesOf(t)
	a.root = w.types.get(&w.types.root)
	for i := range a.managers {
		// In other versions the library compares what the objects are converted to.
		if a.managers[i].version != m.version || !w.types.fits(a.root, a.managers[i].fields, false) {
			return false
		}
	}
	if self := a.managers.find(a.self); self != nil {
		a.last = self.fields
	}
	var ok bool
	if a.config, ok = m.load(w, a.root, applied, false); !ok {
		return false
	}
	_, fields := w.fieldsOf(a.root, &a.config)
	a.fields = m.filter(m.version, fields)
	if len(a.last) > 0 && !a.fields.equal(fields) {
		return false // the library takes away items of which fields are left out
	}
	a.copied = versioned == runtime.Object(a.live)
	a.out, ok = bare(versioned.(Object), true) // what was converted may share maps with the live object
	return ok && !w.odd
}

// beforeFirst notes who manages the fields that are there before the first apply.
func (a *application) beforeFirst() bool {
	empty, err := a.w.versions.New(a.m.Kind)
	if err != nil {
		return false
	}
	if u, ok := isUntyped(empty); ok {
		u.SetGroupVersionKind(a.m.Kind)
	}
	live, ok := bare(a.live, false)
	if !ok {
		return false
	}
	a.managers, ok = a.m.changed(a.w, a.managers, empty, live, beforeFirst)
	return ok && !a.w.odd
}

// bare returns an object without managers: a copy of which nothing is shared if deep is set, and else one that is only read.
func bare(obj Object, deep bool) (Object, bool) {
	if u, ok := isUntyped(obj); ok {
		out := maps.Clone(u.Object)
		if has, ok := out["metadata"]; ok {
			meta, ok := has.(map[string]any)
			if !ok {
				return nil, false
			}
			meta = maps.Clone(meta)
			delete(meta, "managedFields")
			out["metadata"] = meta
		}
		if deep {
			out = runtime.DeepCopyJSON(out)
		}
		return &unstructured.Unstructured{Object: out}, true
	}
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer {
		return nil, false
	}
	shallow := reflect.New(v.Type().Elem())
	shallow.Elem().Set(v.Elem())
	out := shallow.Interface().(Object)
	out.SetManagedFields(nil)
	if deep {
		out = out.DeepCopyObject().(Object)
	}
	return out, true
}

// merge makes the object, and finds out what changes.
func (a *application) merge() bool {
	m, w := a.m, a.w
	var ok bool
	if a.now, ok = m.load(w, a.root, a.out, true); !ok {
		return false
	}
	w.edits, w.hollow, w.filled = 0, false, false
	merged, e := w.merge(a.root, &a.now, &a.config)
	if w.odd || e.replaced {
		return false
	}
	var pruned change
	if len(a.last) > 0 && (w.hollow || len(a.last.minus(a.fields)) > 0) {
		owned := a.fields
		for i := range a.managers {
			if a.managers[i].identity != a.self {
				owned = union(owned, a.managers[i].fields)
			}
		}
		if pruned, e = w.prune(a.root, &a.now, &a.config, pruning{last: a.last, owned: owned}); w.odd || e.replaced {
			return false
		}
	}
	for i := range a.differs {
		a.differs[i] = m.filter(m.version, union(merged.below[i], pruned.below[i]))
	}
	return !w.odd
}

// manage gives the fields that change to the manager. The error is that of a conflict.
func (a *application) manage() error {
	changed := union(a.differs[modified], a.differs[added])
	if !a.force {
		if err := a.conflicts(changed); err != nil {
			return err
		}
	}
	kept := a.managers[:0]
	self := managed{identity: a.self}
	for _, o := range a.managers {
		if o.identity == a.self {
			self = o
			continue
		}
		o.set(o.fields.minus(changed).minus(a.differs[removed]))
		if len(o.fields) > 0 {
			kept = append(kept, o)
		}
	}
	if fields := a.fields.minus(stripped); len(fields) > 0 {
		self.version = a.m.version
		if !fields.equal(self.fields) {
			self.set(fields)
		}
		if a.w.edits > 0 {
			self.time = &metav1.Time{Time: a.m.Clock.Now().UTC()}
		}
		kept = append(kept, self)
	}
	a.managers = kept
	return nil
}

// end returns the outcome, in the version of stored objects.
func (a *application) end() (runtime.Object, error) {
	m := a.m
	if a.w.edits == 0 {
		return a.unchanged()
	}
	if !a.now.untyped() {
		a.w.dropNulls(a.now.typ, a.now.rv)
	}
	a.w.versions.Default(a.out)
	obj, err := a.w.versions.ConvertToVersion(a.out, m.Hub)
	out, ok := obj.(Object)
	if err != nil || !ok {
		return nil, nil
	}
	a.w.put(out, a.managers)
	return out, nil
}

// unchanged returns the live object with the managers, of whom there may be others.
func (a *application) unchanged() (runtime.Object, error) {
	out := a.out
	if !a.copied {
		out, _ = bare(a.live, true)
	}
	a.w.put(out, a.managers)
	return out, nil
}
