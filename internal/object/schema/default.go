package schema

import (
	"context"
	"errors"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxDefaults bounds the number of values that defaulting adds to an object: a list of many empty objects is small to
// send and can become huge.
const maxDefaults = 1_000_000

// ErrTooManyDefaults means that an object would be too large with all its defaults.
var ErrTooManyDefaults = errors.New("the object has too many fields that defaults would be set for")

// Default sets missing fields, and null fields that are not nullable, to copies of their defaults.
func (s *Schema) Default(obj map[string]any) {
	if s.root != nil && s.root.is(hasDefaults) {
		f := filler{}
		f.fill(s.root, obj)
	}
}

// checkDefaults returns an error if an object with that many objects and list items would get too many defaults.
func (s *Schema) checkDefaults(obj map[string]any, parts int) error {
	if s.root == nil || !s.root.is(hasDefaults) || parts*s.defaults <= maxDefaults {
		return nil
	}
	f := filler{count: true}
	f.fill(s.root, obj)
	if f.added > maxDefaults {
		return ErrTooManyDefaults
	}
	return nil
}

// filler sets defaults, or counts the values that it would set.
type filler struct {
	count bool
	added int
}

// fill sets the defaults within a value.
func (f *filler) fill(n *node, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, p := range n.props {
			if !p.is(hasDefaults) || f.added > maxDefaults {
				continue
			}
			value, ok := v[p.name]
			if p.def != nil && (!ok || value == nil && !p.is(nullable)) {
				value, ok = f.copied(p.def), true
				if !f.count {
					v[p.name] = value
				}
			}
			if ok {
				f.fill(p.node, value)
			}
		}
		if n.extra == nil || !n.extra.is(hasDefaults) {
			return
		}
		for name, value := range v {
			if n.property(name) != nil {
				continue
			}
			if value = f.filled(n.extra, value); !f.count {
				v[name] = value
			}
		}
	case []any:
		if n.items == nil || !n.items.is(hasDefaults) {
			return
		}
		for i := range v {
			if value := f.filled(n.items, v[i]); !f.count {
				v[i] = value
			}
		}
	}
}

// filled returns an item or field with its defaults.
func (f *filler) filled(n *node, v any) any {
	if v == nil && !n.is(nullable) {
		v = f.copied(n.def)
	}
	f.fill(n, v)
	return v
}

// copied returns a copy of a default, or the default itself when only counting.
func (f *filler) copied(v any) any {
	if f.count {
		f.added += values(v)
		return v
	}
	return runtime.DeepCopyJSONValue(v)
}

// defaultValues returns the number of values in the defaults within a schema.
func (n *node) defaultValues() int {
	if n == nil || !n.is(hasDefaults) {
		return 0
	}
	sum := n.items.defaultValues() + n.extra.defaultValues()
	if n.def != nil {
		sum += values(n.def)
	}
	for _, p := range n.props {
		sum += p.defaultValues()
	}
	return sum
}

// values returns the number of values within v.
func values(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			n += values(value)
		}
	case []any:
		for _, item := range v {
			n += values(item)
		}
	}
	return n
}

// pruneDefaults removes from the defaults what would be pruned from objects, and from defaults within an embedded
// resource's metadata what is not metadata. It runs before nodes are shared, because the result depends on the position
// of a default.
func (s *Schema) pruneDefaults() {
	s.pruneDefaultsOf(s.root, nil, false)
}

// pruneDefaultsOf prunes the defaults of n and of its parts. path is the path from the root to values of n; inMeta
// means that they are within the standard fields of a resource.
func (s *Schema) pruneDefaultsOf(n *node, path []step, inMeta bool) {
	if !n.is(hasDefaults) {
		return
	}
	if n.def != nil && (inMeta || !isScalar(n.def)) {
		obj := surround(n.def, path)
		if root, ok := obj.(map[string]any); ok {
			_ = s.coerce(root, true) // cannot fail when it drops invalid fields
			p := pruner{keepNulls: true}
			p.object(s.root, root, !s.root.preserving(), true)
			n.def = inside(root, path)
		}
	}
	path = path[:len(path):len(path)]
	for _, p := range n.props {
		meta := inMeta || n.is(isRoot|embedded) && isResourceField(p.name)
		s.pruneDefaultsOf(p.node, append(path, step{name: p.name}), meta)
	}
	if n.extra != nil {
		s.pruneDefaultsOf(n.extra, append(path, step{name: "*"}), inMeta)
	}
	if n.items != nil {
		s.pruneDefaultsOf(n.items, append(path, step{kind: toItem}), inMeta)
	}
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// surround returns an object that contains only v, at path.
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

// inside returns the value at path, or nil.
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

// CheckDefault evaluates the rules of a schema's default. It must do as a new value and as one that stays as it was, because later writes
// see it as either. budget is what that may cost, and becomes what is left.
func CheckDefault(ctx context.Context, p *apiextensionsv1.JSONSchemaProps, v any, path *field.Path, budget *int64) field.ErrorList {
	c := compiler{cache: NewCache(Timing{})}
	n, err := c.build(p)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	if n = c.intern(n); !n.is(hasRules) {
		return nil
	}
	left := *budget
	for _, old := range []any{v, nil} {
		e := evaluator{ctx: ctx, budget: *budget}
		e.value(subject{node: n, value: v, path: path, old: old})
		left = min(left, e.budget)
		if len(e.errs) > 0 {
			sortByField(e.errs)
			*budget = left
			return e.errs
		}
	}
	*budget = left
	return nil
}
