package fieldmanager

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// This file reads and writes the managers of untyped objects as they are in them, in maps. Making them typed and untyped
// again costs more than all else.

// untypedEntries returns the managers that an object has, and false if there is no list of them.
func untypedEntries(u *unstructured.Unstructured) ([]any, bool) {
	meta, _ := u.Object["metadata"].(map[string]any)
	entries, ok := meta["managedFields"].([]any)
	return entries, ok
}

// managersOf reads the managers of an object. The error says that they are invalid.
func (w *walker) managersOf(obj Object) (managers, error) {
	if u, ok := isUntyped(obj); ok {
		if entries, ok := untypedEntries(u); ok {
			if out, ok := w.decodeUntyped(entries); ok {
				return out, nil
			}
		}
	}
	return w.decode(obj.GetManagedFields())
}

// decodeUntyped reads managers. It reports false if they are not as a server writes them.
func (w *walker) decodeUntyped(entries []any) (managers, bool) {
	out := make(managers, 0, len(entries)+1)
	for _, e := range entries {
		entry, isMap := e.(map[string]any)
		m, ok := w.decodeUntypedEntry(entry)
		if !isMap || !ok || out.find(m.identity) != nil {
			return nil, false
		}
		out = append(out, m)
	}
	return out, true
}

func (w *walker) decodeUntypedEntry(entry map[string]any) (m managed, ok bool) {
	var e metav1.ManagedFieldsEntry
	var fields map[string]any
	for name, v := range entry {
		text, isText := v.(string)
		switch name {
		case "manager":
			e.Manager = text
		case "operation":
			e.Operation = metav1.ManagedFieldsOperationType(text)
		case "apiVersion":
			e.APIVersion = text
		case "fieldsType":
			e.FieldsType = text
		case "subresource":
			e.Subresource = text
		case "time":
			t, err := time.Parse(time.RFC3339, text)
			if err != nil || t.IsZero() {
				return m, false
			}
			e.Time = &metav1.Time{Time: t}
		case "fieldsV1":
			fields, isText = v.(map[string]any)
		}
		if !isText {
			return m, false
		}
	}
	m, err := w.decodeEntry(&e)
	if err != nil {
		return m, false
	}
	m.fields, _, ok = w.decodeMap(fields, 0)
	return m, ok
}

// decodeMap reads a set of fields, and whether what it belongs to is a member itself.
func (w *walker) decodeMap(of map[string]any, depth int) (s set, self, ok bool) {
	if depth > maxDepth {
		return nil, false, false
	}
	mark := len(w.stack[decoding])
	for name, v := range of {
		below, isMap := v.(map[string]any)
		if !isMap {
			return nil, false, false
		}
		if name == "." {
			self = true
			continue
		}
		n := node{}
		if n.elem, ok = w.decodeName(name); !ok {
			return nil, false, false
		}
		if n.below, n.member, ok = w.decodeMap(below, depth+1); !ok {
			return nil, false, false
		}
		w.stack[decoding] = append(w.stack[decoding], n)
	}
	nodes := w.stack[decoding][mark:]
	slices.SortFunc(nodes, func(a, b node) int { return a.elem.compare(b.elem) })
	for i := 1; i < len(nodes); i++ {
		if nodes[i-1].elem.compare(nodes[i].elem) == 0 {
			return nil, false, false
		}
	}
	return w.pop(decoding, mark), self || len(nodes) == 0, true
}

func (w *walker) decodeName(name string) (e element, ok bool) {
	if field, ok := strings.CutPrefix(name, "f:"); ok {
		return element{name: field}, true
	}
	r := reader{w: w, rest: name, quote: `"`}
	switch {
	case r.next("k:{"):
		e = element{kind: byKey, key: r.key()}
	case r.next("v:"):
		e = element{kind: byValue, key: w.keys(keyField{value: r.scalar()})}
	default:
		r.failed = true
	}
	if !r.failed && r.rest == "" {
		return e, true
	}
	pe, err := fieldpath.DeserializePathElement(name)
	if err != nil {
		return e, false
	}
	return ofLibrary(pe)
}

// putUntyped gives an untyped object its managers.
func (w *walker) putUntyped(u *unstructured.Unstructured, ms managers) {
	meta, ok := u.Object["metadata"].(map[string]any)
	if !ok || len(ms) == 0 {
		u.SetManagedFields(w.encode(ms))
		return
	}
	slices.SortFunc(ms, inOrder)
	entries := make([]any, len(ms))
	for i := range ms {
		entries[i] = ms[i].untyped()
	}
	meta["managedFields"] = entries
}

// untyped returns the manager as an untyped object has it.
func (m *managed) untyped() map[string]any {
	e := map[string]any{
		"operation": string(m.operation()), "apiVersion": m.version, "fieldsType": "FieldsV1", "fieldsV1": mapOf(m.fields, false),
	}
	if m.manager != "" {
		e["manager"] = m.manager
	}
	if m.time != nil {
		e["time"] = m.time.ToUnstructured()
	}
	if m.subresource != "" {
		e["subresource"] = m.subresource
	}
	return e
}

func mapOf(s set, self bool) map[string]any {
	out := make(map[string]any, len(s))
	if self && len(s) > 0 {
		out["."] = map[string]any{}
	}
	for i := range s {
		out[s[i].elem.text()] = mapOf(s[i].below, s[i].member)
	}
	return out
}

// text is the name of a field of a set's JSON.
func (a element) text() string {
	switch {
	case a.kind == byField:
		return "f:" + a.name
	case a.plain():
		b := appendElement(nil, a)
		return strings.ReplaceAll(string(b[1:len(b)-1]), `\"`, `"`)
	}
	s, err := fieldpath.SerializePathElement(a.library())
	if err != nil {
		panic(err) // it is written to memory
	}
	return s
}
