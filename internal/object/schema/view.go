package schema

import (
	"sync"

	"k8s.io/apiserver/pkg/cel/common"
)

// view is a node as expressions see it. The CEL library requests a schema's map of properties at every field access, so
// it is kept.
type view struct {
	*node
	named    func() map[string]common.Schema
	resource func() *view // with the standard fields of resources
}

var (
	_ common.Schema       = (*view)(nil)
	_ common.SchemaOrBool = extraView{}
)

// asSeen returns n's view.
func (n *node) asSeen() *view {
	if v := n.seen.Load(); v != nil {
		return v
	}
	v := &view{node: n}
	v.named = sync.OnceValue(v.makeProperties)
	v.resource = sync.OnceValue(v.makeResource)
	n.seen.CompareAndSwap(nil, v)
	return n.seen.Load()
}

func (v *view) makeProperties() map[string]common.Schema {
	if len(v.props) == 0 {
		return nil
	}
	out := make(map[string]common.Schema, len(v.props))
	for _, p := range v.props {
		out[p.name] = p.asSeen()
	}
	return out
}

// WithTypeAndObjectMeta returns the view of a resource: apiVersion, kind and the names in metadata are always visible,
// other metadata is not.
func (v *view) WithTypeAndObjectMeta() common.Schema { return v.resource() }

func (v *view) makeResource() *view {
	if v.hasResourceFields() {
		return v
	}
	text := (&node{types: isString, typeName: "string"}).asSeen()
	meta := &view{node: &node{types: isObject, typeName: "object"}}
	meta.named = sync.OnceValue(func() map[string]common.Schema {
		return map[string]common.Schema{"name": text, "generateName": text}
	})
	meta.resource = func() *view { return meta }
	out := &view{node: v.node, named: sync.OnceValue(func() map[string]common.Schema {
		fields := v.makeProperties()
		if fields == nil {
			fields = map[string]common.Schema{}
		}
		fields["kind"], fields["apiVersion"], fields["metadata"] = text, text, meta
		return fields
	})}
	out.resource = func() *view { return out }
	return out
}

func (v *view) hasResourceFields() bool {
	typeAt := func(n *node, name string) typeSet {
		if p := n.property(name); p != nil {
			return p.types
		}
		return 0
	}
	meta := v.property("metadata")
	return typeAt(v.node, "kind") == isString && typeAt(v.node, "apiVersion") == isString &&
		meta != nil && meta.types == isObject &&
		typeAt(meta, "name") == isString && typeAt(meta, "generateName") == isString
}

func (v *view) Type() string {
	if v.is(intOrString) {
		return ""
	}
	return v.typeName
}

func (v *view) Items() common.Schema {
	if v.items == nil {
		return nil
	}
	return v.items.asSeen()
}

func (v *view) Properties() map[string]common.Schema { return v.named() }

func (v *view) AdditionalProperties() common.SchemaOrBool {
	if v.extra == nil && !v.is(extraAllowed|extraForbidden) {
		return nil
	}
	return extraView{v.node}
}

// extraView is the schema of fields that are not properties.
type extraView struct{ *node }

func (e extraView) Schema() common.Schema {
	if e.extra == nil {
		return nil
	}
	return e.extra.asSeen()
}

func (e extraView) Allows() bool { return !e.is(extraForbidden) }

func (v *view) constraints() *checks {
	if v.checks == nil {
		return &checks{}
	}
	return v.checks
}

func (v *view) Format() string                 { return v.format() }
func (v *view) Default() any                   { return v.def }
func (v *view) Minimum() *float64              { return v.constraints().min }
func (v *view) IsExclusiveMinimum() bool       { return v.constraints().exclusiveMin }
func (v *view) Maximum() *float64              { return v.constraints().max }
func (v *view) IsExclusiveMaximum() bool       { return v.constraints().exclusiveMax }
func (v *view) MultipleOf() *float64           { return v.constraints().multipleOf }
func (v *view) MinItems() *int64               { return v.constraints().minItems }
func (v *view) MaxItems() *int64               { return v.constraints().maxItems }
func (v *view) MinLength() *int64              { return v.constraints().minLength }
func (v *view) MaxLength() *int64              { return v.constraints().maxLength }
func (v *view) MinProperties() *int64          { return v.constraints().minProperties }
func (v *view) MaxProperties() *int64          { return v.constraints().maxProperties }
func (v *view) Required() []string             { return v.required }
func (v *view) Enum() []any                    { return v.constraints().enum }
func (v *view) Nullable() bool                 { return v.is(nullable) }
func (v *view) UniqueItems() bool              { return v.is(uniqueItems) }
func (v *view) IsXIntOrString() bool           { return v.is(intOrString) }
func (v *view) IsXEmbeddedResource() bool      { return v.is(embedded) }
func (v *view) IsXPreserveUnknownFields() bool { return v.is(preserves) }
func (v *view) XListMapKeys() []string         { return v.keys }

func (v *view) Pattern() string {
	if p := v.constraints().pattern; p != nil {
		return p.text
	}
	return ""
}

func (v *view) XListType() string {
	switch {
	case v.is(listSet):
		return "set"
	case v.is(listMap):
		return "map"
	case v.is(listAtomic):
		return "atomic"
	}
	return ""
}

func (v *view) XMapType() string {
	switch {
	case v.is(mapAtomic):
		return "atomic"
	case v.is(mapGranular):
		return "granular"
	}
	return ""
}

// Expressions see neither combined schemas nor other rules.

func (v *view) AllOf() []common.Schema                { return nil }
func (v *view) AnyOf() []common.Schema                { return nil }
func (v *view) OneOf() []common.Schema                { return nil }
func (v *view) Not() common.Schema                    { return nil }
func (v *view) XValidations() []common.ValidationRule { return nil }
