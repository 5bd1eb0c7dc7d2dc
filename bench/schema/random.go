package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

type props = apiextensionsv1.JSONSchemaProps

// random makes schemas and objects near them, of a few names and values, so
// that they meet.
type random struct {
	*rand.Rand
	// calm makes few constraints and many rules: where something else is wrong
	// rules are not evaluated.
	calm bool
}

func newRandom(seed, n uint64) random {
	return random{rand.New(rand.NewPCG(seed, n)), n%2 == 1}
}

// pick returns one of some values.
func pick[T any](r random, of ...T) T { return of[r.IntN(len(of))] }

// often is true in n of 100 cases.
func (r random) often(n int) bool { return r.IntN(100) < n }

func (r random) name() string {
	return pick(r, "a", "b", "c", "d-e", "f.g", "status", "kind", "apiVersion", "__x", "if", "namespace")
}

// root makes the schema of a resource.
func (r random) root() *props {
	p := &props{Type: "object", Properties: map[string]props{}}
	for range 1 + r.IntN(4) {
		p.Properties[r.fieldName()] = *r.schema(3)
	}
	if r.often(50) {
		p.Properties["status"] = *r.schema(2)
	}
	if r.often(20) {
		p.XPreserveUnknownFields = ptr.To(true)
	}
	r.constrainObject(p)
	r.junctors(p, 2)
	r.rules(p)
	return p
}

func (r random) fieldName() string {
	for {
		if n := r.name(); n != "kind" && n != "apiVersion" {
			return n
		}
	}
}

// schema makes a schema at most depth levels deep.
func (r random) schema(depth int) *props {
	p := &props{}
	kinds := []string{"string", "integer", "number", "boolean", "object", "object", "map", "array", "array", "int-or-string", "any", "embedded"}
	if depth == 0 {
		kinds = []string{"string", "integer", "number", "boolean", "int-or-string", "any"}
	}
	switch kind := pick(r, kinds...); kind {
	case "object":
		p.Type = "object"
		r.properties(p, depth)
		if r.often(20) {
			p.XPreserveUnknownFields = ptr.To(true)
		}
		if r.often(20) {
			p.XMapType = ptr.To(pick(r, "atomic", "granular"))
		}
		r.constrainObject(p)
	case "map":
		p.Type = "object"
		if r.often(15) {
			p.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: r.often(60)}
		} else {
			p.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: r.schema(depth - 1)}
		}
		r.constrainObject(p)
	case "array":
		r.array(p, depth)
	case "int-or-string":
		p.XIntOrString = true
		if r.often(40) {
			p.AnyOf = []props{{Type: "integer"}, {Type: "string"}}
		}
		r.constrainScalar(p)
	case "any":
		p.XPreserveUnknownFields = ptr.To(true)
		if r.often(30) {
			p.Type = pick(r, "object", "object", "string")
		}
		if r.often(20) && depth > 0 && p.Type != "string" {
			r.properties(p, depth)
		}
	case "embedded":
		p.Type = "object"
		p.XEmbeddedResource = true
		r.properties(p, depth)
		if r.often(20) {
			p.Properties["metadata"] = props{Type: "object", Properties: map[string]props{"name": {Type: "string", Pattern: "^a"}}}
		}
		if r.often(50) {
			p.XPreserveUnknownFields = ptr.To(true)
		}
	default:
		p.Type = kind
		r.constrainScalar(p)
	}
	if r.often(15) {
		p.Nullable = true
	}
	if depth > 0 {
		r.junctors(p, depth)
	}
	r.rules(p)
	if r.often(20) {
		p.Default = &apiextensionsv1.JSON{Raw: encode(r.value(p, 5))}
	}
	return p
}

func (r random) properties(p *props, depth int) {
	p.Properties = map[string]props{}
	for range 1 + r.IntN(3) {
		p.Properties[r.fieldName()] = *r.schema(depth - 1)
	}
}

func (r random) array(p *props, depth int) {
	p.Type = "array"
	items := r.schema(depth - 1)
	switch r.IntN(4) {
	case 0:
		p.XListType = ptr.To("set")
	case 1:
		items = &props{Type: "object"}
		r.properties(items, depth)
		p.XListMapKeys = []string{"a"}
		items.Properties["a"] = props{Type: pick(r, "string", "integer"), Default: r.keyDefault()}
		if r.often(40) {
			p.XListMapKeys = append(p.XListMapKeys, "b")
			items.Properties["b"] = props{Type: pick(r, "string", "integer", "boolean")}
		}
		p.XListType = ptr.To("map")
		r.rules(items)
	case 2:
		p.XListType = ptr.To("atomic")
	}
	p.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: items}
	if r.often(20) {
		p.MaxItems = ptr.To(int64(r.IntN(4)))
	}
	if r.often(20) {
		p.MinItems = ptr.To(int64(r.IntN(3)))
	}
	p.UniqueItems = r.often(10)
}

func (r random) keyDefault() *apiextensionsv1.JSON {
	if r.often(70) {
		return nil
	}
	return &apiextensionsv1.JSON{Raw: []byte(`"x"`)}
}

func (r random) constrainObject(p *props) {
	if r.calm && r.often(90) {
		return
	}
	if r.often(30) {
		p.Required = append(p.Required, r.name())
	}
	if r.often(10) {
		p.MaxProperties = ptr.To(int64(r.IntN(4)))
	}
	if r.often(10) {
		p.MinProperties = ptr.To(int64(r.IntN(3)))
	}
}

func (r random) constrainScalar(p *props) {
	if r.calm && r.often(90) {
		return
	}
	if r.often(15) {
		p.Maximum, p.ExclusiveMaximum = ptr.To(pick(r, 1.0, 2, 2.5, 1e30)), r.often(30)
	}
	if r.often(15) {
		p.Minimum, p.ExclusiveMinimum = ptr.To(pick(r, 0.0, 1, 0.5, -1e30)), r.often(30)
	}
	if r.often(10) {
		p.MultipleOf = ptr.To(pick(r, 2.0, 0.5, 0.1, -1))
	}
	if r.often(15) {
		p.MaxLength = ptr.To(int64(r.IntN(4)))
	}
	if r.often(15) {
		p.MinLength = ptr.To(int64(r.IntN(3)))
	}
	if r.often(15) {
		p.Pattern = pick(r, "^a", "b$", "^[a-c]{1,3}$", "é")
	}
	if r.often(20) {
		p.Format = pick(r, "int32", "int64", "float", "double", "date-time", "date", "byte", "ipv4", "duration", "unknown", "uuid", "email", "k8s-short-name", "hostname", "uri", "cidr", "password")
	}
	if r.often(10) {
		for range 1 + r.IntN(20) {
			p.Enum = append(p.Enum, apiextensionsv1.JSON{Raw: encode(r.scalar())})
		}
	}
}

// junctors adds schemas that narrow a schema down.
func (r random) junctors(p *props, depth int) {
	if r.calm && r.often(90) {
		return
	}
	list := func() (out []props) {
		for range 1 + r.IntN(3) {
			out = append(out, *r.constraint(p, depth))
		}
		return out
	}
	if r.often(8) && !p.XIntOrString {
		p.AnyOf = list()
	}
	if r.often(8) {
		p.OneOf = list()
	}
	if r.often(8) {
		p.AllOf = list()
	}
	if r.often(5) {
		p.Not = r.constraint(p, depth)
	}
}

// constraint makes a schema that only narrows p down.
func (r random) constraint(p *props, depth int) *props {
	out := &props{}
	switch {
	case p.Type == "object":
		r.constrainObject(out)
		for name, s := range p.Properties {
			if r.often(50) && name != "metadata" {
				if out.Properties == nil {
					out.Properties = map[string]props{}
				}
				out.Properties[name] = *r.constraint(&s, depth-1)
			}
		}
	case p.Type == "array":
		if r.often(50) {
			out.MaxItems = ptr.To(int64(r.IntN(3)))
		}
		if r.often(50) && p.Items != nil {
			out.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: r.constraint(p.Items.Schema, depth-1)}
		}
	default:
		r.constrainScalar(out)
	}
	if depth > 0 && r.often(10) {
		r.junctors(out, depth-1)
	}
	return out
}

// rules adds expressions.
func (r random) rules(p *props) {
	often := 15
	if r.calm {
		often = 35
	}
	if !r.often(often) {
		return
	}
	texts := []string{"self == self", "false", "self == oldSelf", "oldSelf == oldSelf"}
	optional := []string{"!oldSelf.hasValue() || oldSelf.value() == self"}
	switch p.Type {
	case "string":
		if p.Format == "" {
			texts = append(texts, "self.size() < 3", "self.startsWith('a')", "self.matches('^a*$')", "int(self) > 1", "type(self) == string")
		}
		switch p.Format {
		case "date", "date-time":
			texts = append(texts, "self.getFullYear() > 2024", "self < timestamp('2030-01-01T00:00:00Z')")
		case "duration":
			texts = append(texts, "self < duration('3s')")
		case "byte":
			texts = append(texts, "self.size() == 1", "self == b'a'")
		}
	case "integer":
		texts = append(texts, "self > 1", "1/self > 0", "self >= oldSelf")
	case "number":
		texts = append(texts, "self > 1.0")
	case "array":
		if i := p.Items.Schema; i.Type == "object" && i.AdditionalProperties == nil && i.Properties["a"].Type != "" {
			texts = append(texts, "self.all(x, has(x.a))", "self.exists_one(x, has(x.a) && x.a == x.a)")
		}
		texts = append(texts, "self.size() < 2", "self[1] == self[0]", "self.all(x, x == x)", "self.size() >= oldSelf.size()")
	case "":
		if p.XIntOrString {
			texts = append(texts, "type(self) == int || self == '10%'", "self > 1", "string(self) != 'a'")
		}
	case "object":
		if p.AdditionalProperties == nil && p.Properties["a"].Type != "" {
			texts = append(texts, "has(self.a)", "self.a == self.a", "!has(oldSelf.a) || has(self.a)")
		}
		for name, escaped := range map[string]string{"d-e": "d__dash__e", "f.g": "f__dot__g", "__x": "__underscores__x", "if": "__if__"} {
			if p.AdditionalProperties == nil && p.Properties[name].Type != "" {
				texts = append(texts, "has(self."+escaped+")")
			}
		}
		if a := p.AdditionalProperties; a != nil && a.Schema != nil && a.Schema.Type != "" {
			texts = append(texts, "self.all(k, k.size() < 3)", "'k' in self", "self['k'] == self['k']", "self.k == self.k")
		}
		if p.AdditionalProperties == nil && p.Properties["namespace"].Type != "" {
			texts = append(texts, "has(self.namespace)", "self.namespace == self.__namespace__")
		}
		if p.XEmbeddedResource {
			texts = append(texts, "self.metadata.name == 'a'", "self.kind == 'a'")
		}
	}
	for range 1 + r.IntN(2) {
		rule := apiextensionsv1.ValidationRule{Rule: pick(r, texts...)}
		if r.often(15) {
			rule.Rule, rule.OptionalOldSelf = pick(r, optional...), ptr.To(true)
		}
		if r.often(40) {
			rule.Message = "a message"
		}
		if r.often(30) {
			rule.MessageExpression = pick(r, "'made ' + 'up'", "string(1/0)", "''", "'a\\nb'", "self == oldSelf ? 'same' : 'other'")
		}
		if r.often(30) {
			rule.Reason = ptr.To(pick(r, apiextensionsv1.FieldValueForbidden, apiextensionsv1.FieldValueRequired, apiextensionsv1.FieldValueInvalid, apiextensionsv1.FieldValueDuplicate))
		}
		if r.often(30) {
			rule.FieldPath = pick(r, ".a", "['d-e']", ".a.b", ".nothing")
		}
		p.XValidations = append(p.XValidations, rule)
	}
}

func (r random) scalar() any {
	return pick[any](r, "a", "b", "abc", "é", "", "1", "x", int64(0), int64(1), int64(2), int64(3), int64(1<<40), 0.5, 1.5, 2.0, 1e20, true, false, nil,
		"2024-01-01T00:00:00Z", "2024-01-01", "10.0.0.1", "YQ==", "5s")
}

// value makes a value near a schema; wrong is how often, of 100 times, it goes
// astray.
func (r random) value(p *props, wrong int) any {
	if p == nil || r.often(wrong) {
		return r.anything(2)
	}
	if p.Nullable && r.often(15) {
		return nil
	}
	if len(p.Enum) > 0 && r.often(70) {
		var v any
		_ = json.Unmarshal(pick(r, p.Enum...).Raw, &v)
		return normal(v)
	}
	switch {
	case p.XIntOrString:
		return pick[any](r, "a", "10%", int64(1), int64(5))
	case p.Type == "string":
		return pick[any](r, "a", "b", "abc", "é", "", "aaaa", "2024-01-01T00:00:00Z", "2024-01-01", "10.0.0.1", "YQ==", "5s", "a@b.c")
	case p.Type == "integer":
		return pick[any](r, int64(0), int64(1), int64(2), int64(3), int64(1<<40), int64(-5), 2.0)
	case p.Type == "number":
		return pick[any](r, int64(1), int64(2), 0.5, 1.5, 0.3, 1e39)
	case p.Type == "boolean":
		return r.often(50)
	case p.Type == "array":
		out := []any{}
		for range r.IntN(4) {
			out = append(out, r.value(p.Items.Schema, wrong))
		}
		return out
	case p.Type == "object" || len(p.Properties) > 0:
		return r.object(p, wrong)
	}
	return r.anything(2)
}

func (r random) object(p *props, wrong int) map[string]any {
	out := map[string]any{}
	for name, s := range p.Properties {
		if r.often(75) {
			out[name] = r.value(&s, wrong)
		}
	}
	if p.AdditionalProperties != nil {
		for range r.IntN(3) {
			out[pick(r, "k", "l", "x.y", "kind")] = r.value(p.AdditionalProperties.Schema, wrong)
		}
	}
	if r.often(wrong * 2) {
		out[pick(r, "unknown", r.name())] = r.anything(2)
	}
	if r.often(wrong) {
		out[r.name()] = nil
	}
	if p.XEmbeddedResource {
		r.typeFields(out, wrong)
	}
	return out
}

func (r random) typeFields(out map[string]any, wrong int) {
	if !r.often(wrong) {
		out["apiVersion"] = pick[any](r, "v1", "a/b", "g/v1", "a/b/c", int64(1))
	}
	if !r.often(wrong) {
		out["kind"] = pick[any](r, "a", "Kind", "", "a b", true)
	}
	if r.often(70) {
		out["metadata"] = r.metadata(wrong)
	}
}

func (r random) metadata(wrong int) any {
	if r.often(wrong / 2) {
		return r.anything(1)
	}
	m := map[string]any{}
	for range r.IntN(4) {
		switch r.IntN(9) {
		case 0, 1:
			m["name"] = pick[any](r, "a", "a/b", "", "n", int64(1))
		case 2:
			m["labels"] = pick[any](r, map[string]any{"a": "b"}, map[string]any{}, map[string]any{"a": int64(1)}, map[string]any{"a": ""}, nil)
		case 3:
			m["creationTimestamp"] = pick[any](r, nil, "2024-01-01T00:00:00Z", "2024-01-01T00:00:00+01:00", "x")
		case 4:
			m["unknown"] = r.anything(1)
		case 5:
			m["generation"] = pick[any](r, int64(0), int64(3), "x", 1.0)
		case 6:
			m["finalizers"] = pick[any](r, []any{"a/b"}, []any{}, []any{int64(1)}, "x")
		case 7:
			m["ownerReferences"] = pick[any](r, []any{map[string]any{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u"}}, []any{map[string]any{"name": "a", "x": "y"}})
		case 8:
			m["managedFields"] = pick[any](r, []any{map[string]any{"manager": "a", "operation": "Update", "apiVersion": "v1", "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:a": map[string]any{}}}},
				[]any{map[string]any{"manager": "a", "fieldsV1": map[string]any{}}})
		}
	}
	return m
}

// anything makes any value.
func (r random) anything(depth int) any {
	if depth == 0 || r.often(50) {
		return r.scalar()
	}
	if r.often(50) {
		out := []any{}
		for range r.IntN(3) {
			out = append(out, r.anything(depth-1))
		}
		return out
	}
	out := map[string]any{}
	for range r.IntN(3) {
		out[r.name()] = r.anything(depth - 1)
	}
	return out
}

// resource makes an object of a schema.
func (r random) resource(p *props, wrong int) map[string]any {
	out := r.object(p, wrong)
	out["apiVersion"], out["kind"] = "g/v1", "Kind"
	out["metadata"] = map[string]any{"name": "n"}
	if r.often(wrong) {
		out["metadata"] = r.metadata(wrong)
	}
	return out
}

// changed returns a copy of v with some changes.
func (r random) changed(p *props, v any, often int) any {
	if p == nil || r.often(often) {
		return r.value(p, 15)
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			s, ok := p.Properties[name]
			switch {
			case r.often(often / 2):
			case ok:
				out[name] = r.changed(&s, value, often)
			case p.AdditionalProperties != nil:
				out[name] = r.changed(p.AdditionalProperties.Schema, value, often)
			default:
				out[name] = clone(value)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, item := range v {
			if p.Items != nil {
				out = append(out, r.changed(p.Items.Schema, item, often))
			} else {
				out = append(out, clone(item))
			}
		}
		if r.often(often) {
			r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		}
		return out
	}
	return v
}

func clone(v any) any { return normal(v) }

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T: %v", v, err))
	}
	return b
}
