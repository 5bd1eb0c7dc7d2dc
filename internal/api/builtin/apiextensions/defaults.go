package apiextensions

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	openapivalidate "k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/kanzen-io/kanzen/internal/object/rules"
	"github.com/kanzen-io/kanzen/internal/object/schema"
)

// defaultsChecker reports defaults that their schemas do not allow.
type defaultsChecker struct {
	ctx context.Context
	// unknown allows fields that the schemas do not contain.
	unknown bool
	// budget is what the rules may cost that are evaluated for all of them.
	budget int64
}

func (c *defaultsChecker) check(p *props, isResource, inMeta bool, e rules.Errors) {
	isResource = isResource || p.XEmbeddedResource
	inMeta = inMeta && !p.XEmbeddedResource
	if p.Default != nil {
		c.checkDefault(p, isResource, inMeta || c.unknown, e.Field("default"))
	}
	if p.Items != nil && p.Items.Schema != nil {
		c.check(p.Items.Schema, false, inMeta, e.Field("items"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		s := p.Properties[name]
		meta := inMeta || isResource && isResourceField(name)
		c.check(&s, false, meta, e.Field("properties").Key(name))
	}
}

func isResourceField(name string) bool {
	return name == "metadata" || name == "apiVersion" || name == "kind"
}

func (c *defaultsChecker) checkDefault(p *props, isResource, unknown bool, e rules.Errors) {
	var v any
	if err := json.Unmarshal(p.Default.Raw, &v); err != nil {
		e.Invalid("", err.Error())
		return
	}
	if v == nil {
		return
	}
	if !unknown && hasUnknown(v, p, isResource) {
		e.Invalid(v, "must not have unknown fields")
	}
	if o, ok := v.(map[string]any); ok && isResource {
		named := true
		for _, name := range []string{"apiVersion", "kind"} {
			text, _ := o[name].(string)
			named = e.Present(name, text) && named
		}
		if !named {
			return
		}
	}
	s, err := openAPI(p)
	if err != nil {
		e.AddError(field.InternalError(e.Path(), err))
		return
	}
	errs := openapivalidate.NewSchemaValidator(s, nil, "", strfmt.Default).Validate(v).Errors
	for _, err := range errs {
		e.AddError(schema.FieldError(err, e.Path()))
	}
	if len(errs) == 0 && c.budget >= 0 {
		e.Add(schema.CheckDefault(c.ctx, p, v, e.Path(), &c.budget))
	}
}

// openAPI converts a schema for the schema and CEL libraries.
func openAPI(p *props) (*spec.Schema, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	s := new(spec.Schema)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("decode schema: %w", err)
	}
	return s, nil
}

// hasUnknown reports whether a value has fields that its schema does not contain.
func hasUnknown(v any, p *props, isResource bool) bool {
	if p == nil {
		return false
	}
	switch v := v.(type) {
	case []any:
		if p.Items == nil || p.Items.Schema == nil {
			return false
		}
		return slices.ContainsFunc(v, func(item any) bool {
			return hasUnknown(item, p.Items.Schema, p.Items.Schema.XEmbeddedResource)
		})
	case map[string]any:
		for name, value := range v {
			s, ok := p.Properties[name]
			a := p.AdditionalProperties
			switch {
			case isResource && isResourceField(name):
			case ok:
				if hasUnknown(value, &s, s.XEmbeddedResource) {
					return true
				}
			case a != nil && a.Schema != nil:
				if hasUnknown(value, a.Schema, a.Schema.XEmbeddedResource) {
					return true
				}
			case a != nil && a.Allows:
			case p.XPreserveUnknownFields == nil || !*p.XPreserveUnknownFields:
				return true
			}
		}
	}
	return false
}

// unknownInDefault reports whether any default of a structural schema has fields that the schema does not contain.
func unknownInDefault(p *props, isResource bool) bool {
	isResource = isResource || p.XEmbeddedResource
	if p.Default != nil {
		var v any
		if json.Unmarshal(p.Default.Raw, &v) == nil && hasUnknown(v, p, isResource) {
			return true
		}
	}
	if p.Items != nil && p.Items.Schema != nil && unknownInDefault(p.Items.Schema, false) {
		return true
	}
	for name, s := range each(p.Properties) {
		if !(isResource && isResourceField(name)) && unknownInDefault(s, false) {
			return true
		}
	}
	return false
}
