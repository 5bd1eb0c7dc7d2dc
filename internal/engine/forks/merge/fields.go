package merge

import (
	"encoding/json"
	"reflect"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// absent is the value of a field that is not there.
var absent any = missing{}

type missing struct{}

// conflict is a field that both sides have changed, to different values.
type conflict struct {
	path         fieldpath.Path
	ours, theirs any // or absent
}

// merger merges the fields of one object.
type merger struct {
	schema *schema.Schema // nil: nothing is known of the fields
	// owned says whether somebody owns a field of ours, or one below it.
	owned     func(fieldpath.Path) bool
	conflicts []conflict
}

// object merges an object. Where there is a conflict the result has our value. The conflicts are in the order of their fields.
func (m *merger) object(t *typed.ParseableType, base, ours, theirs any) any {
	var ref schema.TypeRef
	if t != nil {
		m.schema, ref = t.Schema, t.TypeRef
	}
	merged := m.value(nil, ref, base, ours, theirs)
	slices.SortFunc(m.conflicts, func(a, b conflict) int { return a.path.Compare(b.path) })
	return merged
}

func (m *merger) value(at fieldpath.Path, ref schema.TypeRef, base, ours, theirs any) any {
	if same(ours, theirs) || same(base, ours) {
		return theirs
	}
	t := m.resolve(ref)
	if t.Map != nil && t.Map.ElementRelationship != schema.Atomic && all[map[string]any](base, ours, theirs) {
		return m.fields(at, t.Map, base, ours, theirs)
	}
	if t.List != nil && t.List.ElementRelationship == schema.Associative && all[[]any](base, ours, theirs) {
		if merged, ok := m.items(at, t.List, base, ours, theirs); ok {
			return merged
		}
	}
	switch {
	case ours != absent && !m.owned(at):
		return theirs
	case !same(base, theirs):
		m.conflicts = append(m.conflicts, conflict{at.Copy(), ours, theirs})
	}
	return ours
}

// resolve returns what a value may be. Of what is not known, objects have fields, and anything else is one value.
func (m *merger) resolve(ref schema.TypeRef) schema.Atom {
	if m.schema != nil {
		if t, ok := m.schema.Resolve(ref); ok && t != (schema.Atom{}) {
			return t
		}
	}
	return schema.Atom{Map: &schema.Map{}}
}

// all reports whether all values are of a type, or not there; one of them must be there.
func all[T any](values ...any) bool {
	some := false
	for _, v := range values {
		_, ok := v.(T)
		if !ok && v != absent {
			return false
		}
		some = some || ok
	}
	return some
}

// fields merges maps, and structs. A map that is not there is merged as an empty one, so that of one that only the fork has the owned
// fields are taken.
func (m *merger) fields(at fieldpath.Path, t *schema.Map, base, ours, theirs any) any {
	b, _ := base.(map[string]any)
	o, isOurs := ours.(map[string]any)
	th, isTheirs := theirs.(map[string]any)
	if whole, done := m.whole(at, base, ours, theirs, len(t.Fields) == 0); done {
		return whole
	}
	out := map[string]any{}
	for name := range keysOf(b, o, th) {
		f, ok := t.FindField(name)
		ref := t.ElementType
		if ok {
			ref = f.Type
		}
		below := append(at[:len(at):len(at)], fieldpath.FieldNameElement(name))
		if v := m.value(below, ref, get(b, name), get(o, name), get(th, name)); v != absent {
			out[name] = v
		}
	}
	if len(out) == 0 && (!isOurs || !isTheirs) {
		return absent // nothing is left of it: one side has removed it, or nobody owns any of it
	}
	return out
}

// whole decides about what one side does not have. A struct, or an item of a list, is removed as a whole; a collection, a map or a list, is
// removed by removing what is in it.
func (m *merger) whole(at fieldpath.Path, base, ours, theirs any, collection bool) (any, bool) {
	switch {
	case base == absent && ours == absent:
		return theirs, true
	case base == absent && theirs == absent && empty(ours): // there is nothing below it that somebody could own
		if !m.owned(at) {
			return theirs, true
		}
		return ours, true
	case collection, base == absent, ours != absent && theirs != absent:
		return nil, false
	case ours != absent && !m.owned(at):
		return theirs, true
	case !same(base, theirs):
		m.conflicts = append(m.conflicts, conflict{at.Copy(), ours, theirs})
	}
	return ours, true
}

func empty(v any) bool {
	m, isMap := v.(map[string]any)
	l, isList := v.([]any)
	return isMap && len(m) == 0 || isList && len(l) == 0
}

func keysOf(maps ...map[string]any) map[string]bool {
	out := map[string]bool{}
	for _, m := range maps {
		for key := range m {
			out[key] = true
		}
	}
	return out
}

func get(m map[string]any, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return absent
}

// entries are the items of a list, by their keys.
type entries struct {
	keys  []string // in the order of the list
	items map[string]any
}

func (e *entries) get(key string) any { return get(e.items, key) }

// items merges lists of which each item has a key, and sets. ok is false if a key is there twice or cannot be told.
func (m *merger) items(at fieldpath.Path, t *schema.List, base, ours, theirs any) (merged any, ok bool) {
	var sides [3]entries
	elements := map[string]fieldpath.PathElement{}
	for n, side := range []any{base, ours, theirs} {
		list, _ := side.([]any)
		if sides[n], ok = m.entriesOf(t, list, elements); !ok {
			return nil, false
		}
	}
	b, o, th := &sides[0], &sides[1], &sides[2]
	if whole, done := m.whole(at, base, ours, theirs, true); done {
		return whole, true
	}
	kept := map[string]any{}
	for key, element := range elements {
		below := append(at[:len(at):len(at)], element)
		v := m.item(below, t, b.get(key), o.get(key), th.get(key))
		if v != absent {
			kept[key] = v
		}
	}
	out := []any{}
	for _, key := range order(b.keys, o.keys, th.keys) {
		if v, ok := kept[key]; ok {
			out = append(out, v)
		}
	}
	if len(out) == 0 && (ours == absent || theirs == absent) {
		return absent, true
	}
	return out, true
}

// item merges an item. Of an item that stays, its key stays.
func (m *merger) item(at fieldpath.Path, t *schema.List, base, ours, theirs any) any {
	v := m.value(at, t.ElementType, base, ours, theirs)
	merged, ok := v.(map[string]any)
	if o, is := ours.(map[string]any); ok && is {
		for _, key := range t.Keys {
			if k, has := o[key]; has {
				merged[key] = k
			}
		}
	}
	return v
}

// entriesOf reads a list.
func (m *merger) entriesOf(t *schema.List, list []any, elements map[string]fieldpath.PathElement) (e entries, ok bool) {
	e.items = map[string]any{}
	for _, item := range list {
		key, element, ok := m.keyOf(t, item)
		if _, twice := e.items[key]; !ok || twice {
			return e, false
		}
		e.keys, e.items[key] = append(e.keys, key), item
		elements[key] = element
	}
	return e, true
}

// keyOf returns the key of an item: as text, and as field management has it.
func (m *merger) keyOf(t *schema.List, item any) (string, fieldpath.PathElement, bool) {
	if len(t.Keys) == 0 {
		text, err := json.Marshal(item)
		v := value.NewValueInterface(item)
		return string(text), fieldpath.PathElement{Value: &v}, err == nil
	}
	fields, ok := item.(map[string]any)
	if !ok {
		return "", fieldpath.PathElement{}, false
	}
	of := m.resolve(t.ElementType)
	key := value.FieldList{}
	for _, name := range t.Keys {
		v, has := fields[name]
		if !has && of.Map != nil {
			f, _ := of.Map.FindField(name)
			v = f.Default
		}
		if has || v != nil { // as in field management, a key may lack a field that has no default
			key = append(key, value.Field{Name: name, Value: value.NewValueInterface(v)})
		}
	}
	key.Sort()
	return fieldpath.PathElement{Key: &key}.String(), fieldpath.PathElement{Key: &key}, len(key) > 0
}

// order is the order of the items of a merged list: that of the side which has changed it, with the items that only the other one has
// each after the item before it.
func order(base, ours, theirs []string) []string {
	first, second := theirs, ours
	if slices.Equal(common(base, theirs), common(theirs, base)) {
		first, second = ours, theirs
	}
	in := setOfKeys(first)
	after := map[string][]string{} // what only second has, by the item of first before it; "": it comes before all
	before := ""
	for _, key := range second {
		if in[key] {
			before = key
			continue
		}
		after[before] = append(after[before], key)
	}
	out := after[""]
	for _, key := range first {
		out = append(append(out, key), after[key]...)
	}
	return out
}

// common returns those of a that are in b.
func common(a, b []string) []string {
	in := setOfKeys(b)
	return slices.DeleteFunc(slices.Clone(a), func(key string) bool { return !in[key] })
}

func setOfKeys(keys []string) map[string]bool {
	out := make(map[string]bool, len(keys))
	for _, key := range keys {
		out[key] = true
	}
	return out
}

// same compares values of JSON.
func same(a, b any) bool { return reflect.DeepEqual(a, b) }
