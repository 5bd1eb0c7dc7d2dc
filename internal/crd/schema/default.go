package schema

import "k8s.io/apimachinery/pkg/runtime"

// Default sets fields that are missing, or null where that is not allowed, to
// copies of their defaults.
func (s *Schema) Default(obj map[string]any) {
	if s.root != nil && s.root.is(hasDefaults) {
		s.root.fill(obj)
	}
}

// fill sets the defaults within a value.
func (n *node) fill(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, p := range n.props {
			if !p.is(hasDefaults) {
				continue
			}
			value, ok := v[p.name]
			if p.def != nil && (!ok || value == nil && !p.is(nullable)) {
				value, ok = runtime.DeepCopyJSONValue(p.def), true
				v[p.name] = value
			}
			if ok {
				p.fill(value)
			}
		}
		if n.extra == nil || !n.extra.is(hasDefaults) {
			return
		}
		for name, value := range v {
			if n.property(name) == nil {
				v[name] = n.extra.filled(value)
			}
		}
	case []any:
		if n.items == nil || !n.items.is(hasDefaults) {
			return
		}
		for i := range v {
			v[i] = n.items.filled(v[i])
		}
	}
}

// filled is an item or field with its defaults.
func (n *node) filled(v any) any {
	if v == nil && !n.is(nullable) {
		v = runtime.DeepCopyJSONValue(n.def)
	}
	n.fill(v)
	return v
}

// pruneDefaults removes from the defaults what would be pruned from objects,
// and what is no metadata from those of embedded resources' metadata. It runs
// before nodes are shared, as it depends on where a default is.
func (s *Schema) pruneDefaults() {
	s.pruneDefaultsOf(s.root, nil)
}

// pruneDefaultsOf prunes the defaults of n and of what is within it. path says
// how values of n are reached from the root.
func (s *Schema) pruneDefaultsOf(n *node, path []step) {
	if n.def != nil {
		obj := surround(n.def, path)
		if root, ok := obj.(map[string]any); ok {
			_ = s.coerce(root, true) // nothing is wrong where it drops what is
			p := pruner{keepNulls: true}
			p.object(s.root, root, !s.root.preserving(), true)
			n.def = inside(root, path)
		}
	}
	path = path[:len(path):len(path)]
	for _, p := range n.props {
		s.pruneDefaultsOf(p.node, append(path, step{name: p.name}))
	}
	if n.extra != nil {
		s.pruneDefaultsOf(n.extra, append(path, step{name: "*"}))
	}
	if n.items != nil {
		s.pruneDefaultsOf(n.items, append(path, step{kind: toItem}))
	}
}

// surround makes an object of which v is the only thing there is, at path.
func surround(v any, path []step) any {
	v = runtime.DeepCopyJSONValue(v)
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].kind == toItem {
			v = []any{v}
		} else {
			v = map[string]any{path[i].name: v}
		}
	}
	return v
}

// inside returns what there is at path, or nil.
func inside(v any, path []step) any {
	for _, s := range path {
		if s.kind == toItem {
			list, _ := v.([]any)
			if len(list) == 0 {
				return nil
			}
			v = list[0]
			continue
		}
		obj, _ := v.(map[string]any)
		v = obj[s.name]
	}
	return v
}
