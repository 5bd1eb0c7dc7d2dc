package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

type props = apiextensionsv1.JSONSchemaProps

// compiler creates nodes. build creates a tree without shared nodes; intern then merges equal nodes.
type compiler struct {
	cache    *Cache
	interned map[digest]*node
}

func (c *compiler) build(p *props) (*node, error) {
	n := &node{types: typeOf(p.Type), typeName: p.Type, required: p.Required, keys: p.XListMapKeys}
	if p.XIntOrString {
		n.types, n.typeName = isInteger|isString, "integer,string"
	}
	n.flags = ownFlags(p)
	var err error
	if p.Default != nil {
		if n.def, err = decode(p.Default); err != nil {
			return nil, fmt.Errorf("default: %w", err)
		}
	}
	if n.checks, err = c.checks(p, n.types); err != nil {
		return nil, err
	}
	if err := c.parts(n, p); err != nil {
		return nil, err
	}
	if n.combos, err = c.combos(p); err != nil {
		return nil, err
	}
	for i := range p.XValidations {
		n.rules = append(n.rules, newRule(&p.XValidations[i], p))
	}
	n.finish()
	return n, nil
}

// parts compiles the schemas of fields, items and other parts of n.
func (c *compiler) parts(n *node, p *props) (err error) {
	if p.Items != nil {
		if len(p.Items.JSONSchemas) > 0 {
			return errors.New("items: an array of schemas is not supported")
		}
		if p.Items.Schema != nil {
			if n.items, err = c.build(p.Items.Schema); err != nil {
				return fmt.Errorf("items: %w", err)
			}
		}
	}
	if a := p.AdditionalProperties; a != nil && a.Schema != nil {
		if n.extra, err = c.build(a.Schema); err != nil {
			return fmt.Errorf("additionalProperties: %w", err)
		}
	}
	if len(p.Properties) == 0 {
		return nil
	}
	n.props = make([]property, 0, len(p.Properties))
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		s := p.Properties[name]
		sub, err := c.build(&s)
		if err != nil {
			return fmt.Errorf("properties[%s]: %w", name, err)
		}
		n.props = append(n.props, property{name, sub})
	}
	return nil
}

func ownFlags(p *props) (f flags) {
	for _, s := range []struct {
		is bool
		flags
	}{
		{p.Nullable, nullable},
		{p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields, preserves},
		{p.XEmbeddedResource, embedded},
		{p.XIntOrString, intOrString},
		{p.UniqueItems, uniqueItems},
		{is(p.XListType, "set"), listSet},
		{is(p.XListType, "map"), listMap},
		{is(p.XListType, "atomic"), listAtomic},
		{is(p.XMapType, "atomic"), mapAtomic},
		{is(p.XMapType, "granular"), mapGranular},
		{p.Format != "" && p.Format != "byte", formatted},
	} {
		if s.is {
			f |= s.flags
		}
	}
	if a := p.AdditionalProperties; a != nil && a.Schema == nil {
		f |= extraForbidden
		if a.Allows {
			f ^= extraForbidden | extraAllowed
		}
	}
	return f
}

func is(text *string, what string) bool { return text != nil && *text == what }

func (c *compiler) checks(p *props, t typeSet) (*checks, error) {
	k := checks{
		min: p.Minimum, max: p.Maximum, multipleOf: p.MultipleOf,
		exclusiveMin: p.ExclusiveMinimum, exclusiveMax: p.ExclusiveMaximum,
		minLength: p.MinLength, maxLength: p.MaxLength,
		minItems: p.MinItems, maxItems: p.MaxItems,
		minProperties: p.MinProperties, maxProperties: p.MaxProperties,
	}
	of := p.Type
	if p.XIntOrString {
		of = "" // two types; kube-apiserver then checks formats of strings
	}
	if IsFormat(of, p.Format) {
		k.format = p.Format
		if of == "" || of == "string" {
			k.isFormat = formatCheck(p.Format)
		}
	}
	if p.Pattern != "" {
		k.pattern = c.cache.pattern(p.Pattern)
	}
	for i := range p.Enum {
		v, err := decode(&p.Enum[i])
		if err != nil {
			return nil, fmt.Errorf("enum[%d]: %w", i, err)
		}
		k.enum = append(k.enum, v)
	}
	k.names = longEnum(k.enum)
	if k.empty() {
		return nil, nil
	}
	return &k, nil
}

func (k *checks) empty() bool {
	return k.min == nil && k.max == nil && k.multipleOf == nil && k.minLength == nil && k.maxLength == nil &&
		k.minItems == nil && k.maxItems == nil && k.minProperties == nil && k.maxProperties == nil &&
		k.format == "" && k.pattern == nil && len(k.enum) == 0
}

func (c *compiler) combos(p *props) (*combos, error) {
	var out combos
	for _, l := range []struct {
		name string
		from []props
		to   *[]*node
	}{{"anyOf", p.AnyOf, &out.anyOf}, {"oneOf", p.OneOf, &out.oneOf}, {"allOf", p.AllOf, &out.allOf}} {
		for i := range l.from {
			n, err := c.build(&l.from[i])
			if err != nil {
				return nil, fmt.Errorf("%s[%d]: %w", l.name, i, err)
			}
			*l.to = append(*l.to, n)
		}
	}
	if p.Not != nil {
		n, err := c.build(p.Not)
		if err != nil {
			return nil, fmt.Errorf("not: %w", err)
		}
		out.not = n
	}
	if len(out.anyOf)+len(out.oneOf)+len(out.allOf) == 0 && out.not == nil {
		return nil, nil
	}
	return &out, nil
}

// decode decodes a value in a schema as objects are decoded: whole numbers are int64.
func decode(j *apiextensionsv1.JSON) (v any, err error) {
	if len(j.Raw) == 0 || strings.TrimSpace(string(j.Raw)) == "" {
		return nil, nil
	}
	err = json.Unmarshal(j.Raw, &v)
	return v, err
}
