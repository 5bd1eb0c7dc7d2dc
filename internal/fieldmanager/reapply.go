package fieldmanager

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// lastApplied is the annotation in which kubectl keeps what it has applied on the client's side. Server-side apply keeps it
// true.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Apply merges what a manager applies into the live object, and returns the outcome.
func (m *Manager) Apply(live Object, applied *unstructured.Unstructured, manager string, force bool) (runtime.Object, error) {
	if obj := m.reapply(live, applied, manager); obj != nil {
		return obj, nil
	}
	return m.library.Apply(live.DeepCopyObject(), applied, manager, force)
}

// reapply returns a copy of the live object if applying changes nothing, neither of the object nor of its managers.
// Otherwise, and where that is not sure, it returns nil.
func (m *Manager) reapply(live Object, applied *unstructured.Unstructured, manager string) runtime.Object {
	if applied.GroupVersionKind() != m.Kind || applied.GetManagedFields() != nil {
		return nil
	}
	if manager == "kubectl" && live.GetAnnotations()[lastApplied] != "" {
		return nil
	}
	w := m.walker()
	defer m.release(w)
	managers, err := w.managersOf(live)
	if err != nil || w.odd {
		return nil
	}
	managers = slices.DeleteFunc(managers, func(o managed) bool { return len(o.fields) == 0 })
	if !m.changesNothing(w, managers, live, applied, manager) || w.odd {
		return nil
	}
	out := live.DeepCopyObject().(Object)
	w.put(out, managers)
	return out
}

// changesNothing reports whether a manager applies what it has applied before, and the live object has it.
func (m *Manager) changesNothing(w *walker, ms managers, live Object, applied *unstructured.Unstructured, manager string) bool {
	self := ms.find(identity{manager: manager, subresource: m.Subresource, applied: true})
	if self == nil {
		return false
	}
	versioned, err := m.Versions.ConvertToVersion(live, m.target)
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
	root := w.types.get(&w.types.root)
	for i := range ms {
		// In other versions the library compares what the objects are converted to.
		if ms[i].version != m.version || !w.types.fits(root, ms[i].fields, false) {
			return false
		}
	}
	config, ok := m.load(w, root, applied, false)
	if !ok {
		return false
	}
	// With fields that are left out, the library takes away items that have them.
	_, fields := w.fieldsOf(root, &config)
	if !equalSets(fields.minus(stripped), self.fields) || !equalSets(m.filter(w, m.version, fields), fields) {
		return false
	}
	now, ok := m.load(w, root, versioned, true)
	return ok && w.has(root, &now, &config)
}

func equalSets(a, b set) bool {
	return slices.EqualFunc(a, b, func(x, y node) bool {
		return x.member == y.member && x.elem.compare(y.elem) == 0 && equalSets(x.below, y.below)
	})
}

// fieldsOf returns the fields of an applied value: whether it is one itself, and those below it. No item is in a list twice.
func (w *walker) fieldsOf(t *fieldType, v *val) (self bool, below set) {
	switch s := t.of(v.kind); {
	case s&objectShape != 0:
		return w.fieldsOfObject(t.object, v)
	case s&scalarShape != 0:
		return true, nil
	case s&listShape != 0:
		return w.fieldsOfList(t.list, v)
	}
	w.odd = true
	return false, nil
}

func (w *walker) fieldsOfObject(t *objectType, v *val) (self bool, below set) {
	if t.atomic || v.kind != object {
		return t.atomic, nil
	}
	mark := len(w.stack[decoding])
	p := w.pairs(v, &val{}, t)
	for p.next(w) {
		member, fields := w.fieldsOf(w.types.get(p.ref), &p.l)
		// An entry of a map is a field itself, other than a field of a struct.
		member = member || p.ref == t.others || p.l.kind == null || p.l.kind == object && w.isEmpty(&p.l)
		if member || len(fields) > 0 {
			w.stack[decoding] = append(w.stack[decoding], node{element{name: p.name}, member, fields})
		}
	}
	p.end(w)
	return false, w.pop(decoding, mark)
}

func (w *walker) fieldsOfList(t *listType, v *val) (self bool, below set) {
	if t.atomic || v.kind != list {
		return t.atomic, nil
	}
	items := w.sorted(t, v)
	if w.odd {
		return false, nil
	}
	mark := len(w.stack[decoding])
	var it val
	for _, i := range items {
		it = w.at(v, i.index)
		_, fields := w.fieldsOf(w.types.get(&t.items), &it)
		w.stack[decoding] = append(w.stack[decoding], node{i.elem, true, fields})
	}
	w.items = w.items[:len(w.items)-len(items)]
	return false, w.pop(decoding, mark)
}

// sorted returns the items of a list by their elements. The caller takes them off w.items.
func (w *walker) sorted(t *listType, v *val) []item {
	mark := len(w.items)
	w.index(t, v, false)
	items := w.items[mark:]
	slices.SortFunc(items, func(a, b item) int { return a.elem.compare(b.elem) })
	return items
}

func (w *walker) isEmpty(v *val) bool {
	p := w.pairs(v, &val{}, nil)
	defer p.end(w)
	return !p.next(w)
}

// has reports whether merging config into live changes nothing. It may report false where that is so.
func (w *walker) has(t *fieldType, live, config *val) bool {
	s := t.of(config.kind)
	if live.kind == absent || s != t.of(live.kind) {
		return false
	}
	switch {
	case s&objectShape != 0:
		return w.hasFields(t.object, live, config)
	case s&scalarShape != 0:
		return w.alike(live, config)
	case s&listShape != 0:
		return w.hasItems(t.list, live, config)
	}
	return false
}

func (w *walker) hasFields(t *objectType, live, config *val) bool {
	if t.atomic || live.kind != object || config.kind != object {
		return w.alike(live, config)
	}
	p := w.pairs(&val{}, config, t)
	defer p.end(w)
	var now val
	for p.next(w) {
		now = w.fieldNamed(live, p.name)
		if !w.has(w.types.get(p.ref), &now, &p.r) {
			return false
		}
	}
	return true
}

// hasItems compares items with those that they are merged into. They are in the order of the live list, or it would be
// changed.
func (w *walker) hasItems(t *listType, live, config *val) bool {
	if t.atomic || live.len() == 0 || config.len() == 0 {
		return w.alike(live, config)
	}
	mark := len(w.items)
	defer func() { w.items = w.items[:mark] }()
	old := w.sorted(t, live)
	if w.odd {
		return false
	}
	for i := 1; i < len(old); i++ {
		if old[i-1].elem.compare(old[i].elem) == 0 {
			return false
		}
	}
	last := -1
	var now, it val
	for i := range config.len() {
		it = w.at(config, i)
		e := w.elementOf(t, &it)
		at, ok := slices.BinarySearchFunc(old, e, func(i item, e element) int { return i.elem.compare(e) })
		if !ok || old[at].index <= last {
			return false
		}
		last = old[at].index
		now = w.at(live, last)
		if !w.has(w.types.get(&t.items), &now, &it) {
			return false
		}
	}
	return true
}

// alike reports whether a value of a live object and one that is applied are the same in JSON.
func (w *walker) alike(live, config *val) bool {
	if live.kind != config.kind {
		return false
	}
	switch live.kind {
	case list:
		if live.len() != config.len() {
			return false
		}
		var a, b val
		for i := range live.len() {
			a, b = w.at(live, i), w.at(config, i)
			if !w.alike(&a, &b) {
				return false
			}
		}
		return true
	case object:
		return w.alikeObjects(live, config)
	}
	return w.equal(live, config)
}

func (w *walker) alikeObjects(live, config *val) bool {
	p := w.pairs(live, &val{}, nil)
	defer p.end(w)
	n := 0
	var applied val
	for ; p.next(w); n++ {
		applied = w.fieldNamed(config, p.name)
		if !w.alike(&p.l, &applied) {
			return false
		}
	}
	return n == len(config.any.(map[string]any))
}
