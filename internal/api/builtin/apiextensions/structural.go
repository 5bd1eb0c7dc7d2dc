package apiextensions

import (
	"reflect"
	"regexp"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// A schema is structural if it declares the type of every field once, outside of anyOf and similar, which may only
// restrict values. This makes it possible to detect unknown fields and to set defaults.

// isUnsupported reports whether a schema uses anything that no structural schema may contain.
func isUnsupported(p *props) bool {
	return within(p, func(p *props) bool {
		return p.ID != "" || p.Schema != "" || p.Ref != nil && *p.Ref != "" ||
			len(p.PatternProperties) > 0 || len(p.Dependencies) > 0 || len(p.Definitions) > 0 || p.AdditionalItems != nil ||
			p.Items != nil && len(p.Items.JSONSchemas) > 0 ||
			p.XPreserveUnknownFields != nil && !*p.XPreserveUnknownFields
	})
}

// NonStructural returns the reasons why the schemas of a definition are not structural.
func NonStructural(d *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	if d.Spec.PreserveUnknownFields {
		e.Field("preserveUnknownFields").Invalid(true, "must be false")
	}
	for i := range d.Spec.Versions {
		if s := d.Spec.Versions[i].Schema; s != nil && s.OpenAPIV3Schema != nil {
			structural(s.OpenAPIV3Schema, e.Field("versions").Item(i).Field("schema").Field("openAPIV3Schema"))
		}
	}
	return e.List()
}

// structural reports to e where a schema is not structural, and returns e.
func structural(p *props, e rules.Errors) rules.Errors {
	declares(p, atRoot, e)
	complete(p, p, e)
	return e
}

type level int

const (
	atRoot level = iota
	atItem
	atField
)

func (l level) String() string {
	return [...]string{"at the root", "for specified array items", "for specified object fields"}[l]
}

// declares validates a schema that declares fields.
func declares(p *props, l level, e rules.Errors) {
	if p.Type == "array" && (p.Items == nil || p.Items.Schema == nil) {
		e.Field("items").Required("must be specified")
	}
	if p.Items != nil && p.Items.Schema != nil {
		declares(p.Items.Schema, atItem, e.Field("items"))
	}
	for name, s := range each(p.Properties) {
		declares(s, atField, e.Field("properties").Key(name))
	}
	if a := p.AdditionalProperties; a != nil {
		if l == atRoot {
			e.Field("additionalProperties").Forbidden("must not be used at the root")
		}
		if a.Schema != nil {
			declares(a.Schema, atField, e.Field("additionalProperties"))
		}
	}
	preserves := p.XPreserveUnknownFields != nil && *p.XPreserveUnknownFields
	if p.XIntOrString && preserves {
		e.Field("x-kubernetes-preserve-unknown-fields").Invalid(true, "must be false if x-kubernetes-int-or-string is true")
	}
	if p.XIntOrString && p.XEmbeddedResource {
		e.Field("x-kubernetes-embedded-resource").Invalid(true, "must be false if x-kubernetes-int-or-string is true")
	}
	constraints(p, isIntOrString(p.AnyOf), len(p.AllOf) > 0 && isIntOrString(p.AllOf[0].AnyOf), e)

	switch {
	case p.XEmbeddedResource:
		hasType(p, "object", "x-kubernetes-embedded-resource", e)
	case p.Type == "" && !p.XIntOrString && !preserves:
		e.Field("type").Required("must not be empty " + l.String())
	}
	if l == atRoot && p.Type != "" && p.Type != "object" {
		e.Field("type").Invalid(p.Type, "must be object at the root")
	}
	if p.XEmbeddedResource {
		if p.AdditionalProperties != nil {
			e.Field("additionalProperties").Forbidden("must not be used if x-kubernetes-embedded-resource is set")
		}
		if !preserves && len(p.Properties) == 0 {
			e.Field("properties").Required("must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields")
		}
	}
	resourceFields(p, l, e.Field("properties"))
}

// resourceFields validates the schemas of apiVersion, kind and metadata.
func resourceFields(p *props, l level, e rules.Errors) {
	isResource := l == atRoot || p.XEmbeddedResource
	for name, want := range map[string]string{"kind": "string", "apiVersion": "string", "metadata": "object"} {
		if s, ok := p.Properties[name]; ok && isResource && s.Type != want {
			e.Key(name).Field("type").Invalid(s.Type, "must be "+want)
		}
	}
	metadata, ok := p.Properties["metadata"]
	if !ok || l != atRoot {
		return
	}
	// Only the name in metadata may be constrained.
	n := 0
	for _, name := range []string{"name", "generateName"} {
		if _, ok := metadata.Properties[name]; ok {
			n++
		}
	}
	if n == len(metadata.Properties) {
		metadata.Properties = nil
	}
	metadata.Type, metadata.Default = "", nil
	if !reflect.DeepEqual(metadata, props{}) {
		e.Key("metadata").Forbidden("must not specify anything other than name and generateName, but metadata is implicitly specified")
	}
}

// isIntOrString reports whether anyOf is the standard one for fields that are numbers or strings.
func isIntOrString(anyOf []props) bool {
	return len(anyOf) == 2 && reflect.DeepEqual(anyOf, []props{{Type: "integer"}, {Type: "string"}})
}

// constraints validates the parts that restrict values. The int-or-string form of anyOf may be skipped: the schema's
// own, and that of the first item of allOf.
func constraints(p *props, skipAny, skipAnyOfFirst bool, e rules.Errors) {
	if !skipAny {
		for i := range p.AnyOf {
			constraint(&p.AnyOf[i], false, e.Field("anyOf").Item(i))
		}
	}
	for i := range p.AllOf {
		constraint(&p.AllOf[i], skipAnyOfFirst && i == 0, e.Field("allOf").Item(i))
	}
	for i := range p.OneOf {
		constraint(&p.OneOf[i], false, e.Field("oneOf").Item(i))
	}
	if p.Not != nil {
		constraint(p.Not, false, e.Field("not"))
	}
	if p.Pattern != "" {
		if _, err := regexp.Compile(p.Pattern); err != nil {
			e.Field("pattern").Invalid(p.Pattern, "must be a valid regular expression, but isn't: "+err.Error())
		}
	}
}

// constraint validates a schema that may only restrict values.
func constraint(p *props, skipAny bool, e rules.Errors) {
	constraints(p, skipAny, false, e)
	if p.Items != nil && p.Items.Schema != nil {
		constraint(p.Items.Schema, false, e.Field("items"))
	}
	for name, s := range each(p.Properties) {
		constraint(s, false, e.Field("properties").Key(name))
	}
	a := p.AdditionalProperties
	for _, f := range []struct {
		name  string
		there bool
	}{
		{"type", p.Type != ""},
		{"additionalProperties", a != nil && (a.Schema != nil || a.Allows)},
		{"default", p.Default != nil},
		{"title", p.Title != ""},
		{"description", p.Description != ""},
		{"nullable", p.Nullable},
		{"x-kubernetes-preserve-unknown-fields", p.XPreserveUnknownFields != nil},
		{"x-kubernetes-embedded-resource", p.XEmbeddedResource},
		{"x-kubernetes-int-or-string", p.XIntOrString},
		{"x-kubernetes-list-map-keys", len(p.XListMapKeys) > 0},
		{"x-kubernetes-list-type", p.XListType != nil},
		{"x-kubernetes-map-type", p.XMapType != nil},
		{"x-kubernetes-validations", len(p.XValidations) > 0},
	} {
		if f.there {
			e.Field(f.name).Forbidden("must be undefined to be structural")
		}
	}
	if _, ok := p.Properties["metadata"]; ok {
		e.Field("properties").Key("metadata").Forbidden("must not be specified in a nested context")
	}
}

// complete reports fields that c, the whole or a part of p's constraints, restricts and p does not declare.
func complete(c, p *props, e rules.Errors) {
	for _, l := range []struct {
		name string
		list []props
	}{{"allOf", c.AllOf}, {"anyOf", c.AnyOf}, {"oneOf", c.OneOf}} {
		for i := range l.list {
			completePart(&l.list[i], p, e, l.name)
		}
	}
	if c.Not != nil {
		completePart(c.Not, p, e, "not")
	}
}

func completePart(c, p *props, e rules.Errors, from string) {
	if p == nil {
		e.Required("because it is defined in " + from)
		return
	}
	complete(c, p, e)
	if c.Items != nil && c.Items.Schema != nil {
		var items *props
		if p.Items != nil {
			items = p.Items.Schema
		}
		completePart(c.Items.Schema, items, e.Field("items"), from)
	}
	for name, s := range each(c.Properties) {
		at := e.Field("properties").Key(name)
		declared, ok := p.Properties[name]
		if !ok {
			at.Required("because it is defined in " + from)
			continue
		}
		completePart(s, &declared, at, from)
	}
}
