package schema

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// lists reports duplicate items in lists of type set and map.
func (c *collector) lists(n *node, v any, path *field.Path) {
	if !n.is(hasLists) || c.full() {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for p, value := range n.fields(v, hasLists) {
			c.lists(p.node, value, path.Child(p.name))
		}
		if n.extra != nil && n.extra.is(hasLists) {
			for name, value := range v {
				c.lists(n.extra, value, path.Key(name))
			}
		}
	case []any:
		switch {
		case n.is(listSet):
			for _, i := range repeated(v) {
				c.add(field.Duplicate(path.Index(i), v[i]))
			}
		case n.is(listMap):
			c.repeatedKeys(n, v, path)
		}
		if n.items != nil && n.items.is(hasLists) {
			for i := range v {
				c.lists(n.items, v[i], path.Index(i))
			}
		}
	}
}

// repeatedKeys reports items of a list of type map with a duplicate key.
func (c *collector) repeatedKeys(n *node, list []any, path *field.Path) {
	keys := make([]any, len(list))
	for i, v := range list {
		obj, ok := v.(map[string]any)
		if v != nil && !ok {
			c.add(field.Invalid(path.Index(i), v, "must be an object for an array of list-type map"))
			return
		}
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
		c.add(field.Duplicate(path.Index(i), shown))
	}
}

// noKey is the key of an item without a key.
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

// repeated returns the positions of duplicates. Objects and lists are equal if their JSON is.
func repeated(list []any) (at []int) {
	if len(list) < 2 {
		return nil
	}
	type text string // a type that no JSON value has
	seen := make(map[any]int, len(list))
	for i, v := range list {
		switch v.(type) {
		case map[string]any, []any:
			b, _ := json.Marshal(v) // cannot fail: it came from JSON
			v = text(b)
		}
		seen[v]++
		if seen[v] == 2 && len(at) < maxErrors {
			at = append(at, i)
		}
	}
	return at
}
