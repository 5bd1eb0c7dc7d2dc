package schema

import (
	"reflect"

	"k8s.io/apiserver/pkg/cel/common"
)

// equal reports whether a value is unchanged, as far as the schema can tell. Lists of type map are compared by key, in
// any order; a value without a schema counts as changed.
func (n *node) equal(v, old any) bool {
	switch v := v.(type) {
	case map[string]any:
		old, ok := old.(map[string]any)
		if !ok || len(v) != len(old) {
			return false
		}
		for name, value := range v {
			was, ok := old[name]
			s := n.property(name)
			if s == nil {
				s = n.extra
			}
			if !ok || s == nil || !s.equal(value, was) {
				return false
			}
		}
		return true
	case []any:
		old, ok := old.([]any)
		if !ok || len(v) != len(old) {
			return false
		}
		if !n.is(listMap) {
			return reflect.DeepEqual(v, old)
		}
		olds := n.oldItems(before{old, true})
		for _, item := range v {
			was := olds.of(item)
			if !was.known || !n.items.equal(item, was.value) {
				return false
			}
		}
		return true
	}
	switch old.(type) {
	case map[string]any, []any:
		return false
	}
	return v == old
}

// oldItems returns the old values of list items.
type oldItems struct{ byKey common.MapList }

func (n *node) oldItems(old before) oldItems {
	list, ok := old.value.([]any)
	if !ok || !n.is(listMap) || n.items == nil {
		return oldItems{}
	}
	return oldItems{common.MakeMapList(n.asSeen(), list)}
}

func (o oldItems) of(item any) before {
	if o.byKey == nil {
		return before{}
	}
	was := o.byKey.Get(item)
	return before{was, was != nil}
}

// hasEqual reports whether two items of a list are equal.
func hasEqual(list []any) bool {
	seen := make(map[string]struct{}, len(list))
	var text []byte
	for _, v := range list {
		text = appendValue(text[:0], v)
		if _, ok := seen[string(text)]; ok {
			return true
		}
		seen[string(text)] = struct{}{}
	}
	return false
}
