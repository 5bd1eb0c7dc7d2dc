package schema

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// lists reports items that occur twice in lists of type set and map.
func (n *node) lists(v any, path *field.Path) (errs field.ErrorList) {
	if !n.is(hasLists) {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		for _, p := range n.props {
			if value, ok := v[p.name]; ok && p.is(hasLists) {
				errs = append(errs, p.lists(value, path.Child(p.name))...)
			}
		}
		if n.extra != nil && n.extra.is(hasLists) {
			for name, value := range v {
				errs = append(errs, n.extra.lists(value, path.Key(name))...)
			}
		}
	case []any:
		switch {
		case n.is(listSet):
			for _, i := range repeated(v) {
				errs = append(errs, field.Duplicate(path.Index(i), v[i]))
			}
		case n.is(listMap):
			errs = n.repeatedKeys(v, path)
		}
		if n.items != nil && n.items.is(hasLists) {
			for i := range v {
				errs = append(errs, n.items.lists(v[i], path.Index(i))...)
			}
		}
	}
	return errs
}

// repeatedKeys reports items of a list of type map whose key another has.
func (n *node) repeatedKeys(list []any, path *field.Path) (errs field.ErrorList) {
	for i, v := range list {
		if _, ok := v.(map[string]any); v != nil && !ok {
			return field.ErrorList{field.Invalid(path.Index(i), v, "must be an object for an array of list-type map")}
		}
	}
	keys := make([]any, len(list))
	for i, v := range list {
		obj, _ := v.(map[string]any)
		keys[i] = n.keyOf(obj)
	}
	for _, i := range repeated(keys) {
		shown := keys[i]
		if len(n.keys) == 1 {
			if _, ok := shown.(noKey); ok {
				shown = map[string]any{}
			} else {
				shown = map[string]any{n.keys[0]: shown}
			}
		}
		errs = append(errs, field.Duplicate(path.Index(i), shown))
	}
	return errs
}

// noKey is the key of an item that has none.
type noKey struct{}

func (n *node) keyOf(obj map[string]any) any {
	if len(n.keys) == 1 {
		if v, ok := obj[n.keys[0]]; ok {
			return v
		}
		return noKey{}
	}
	key := make(map[string]any, len(n.keys))
	for _, name := range n.keys {
		if v, ok := obj[name]; ok {
			key[name] = v
		}
	}
	return key
}

// repeated returns where values occur for the second time. Objects and lists
// are the same if their JSON is.
func repeated(list []any) (at []int) {
	if len(list) < 2 {
		return nil
	}
	type text string // no JSON value has this type
	seen := make(map[any]int, len(list))
	for i, v := range list {
		switch v.(type) {
		case map[string]any, []any:
			b, _ := json.Marshal(v) // it came from JSON
			v = text(b)
		}
		seen[v]++
		if seen[v] == 2 {
			at = append(at, i)
		}
	}
	return at
}
