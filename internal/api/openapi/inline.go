package openapi

import (
	"fmt"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// inliner replaces references by the schemas they refer to.
type inliner struct {
	schemas map[string]*spec.Schema // of a document's components, by name
	// within are the names on the way to the current schema: a recursive schema becomes an object without properties.
	within map[string]bool
}

// named returns a schema without references.
func (i *inliner) named(name string) (*spec.Schema, error) {
	s, ok := i.schemas[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no schema %q", name)
	case i.within[name]:
		return &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}, nil
	}
	i.within[name] = true
	defer delete(i.within, name)
	return i.inline(s)
}

func (i *inliner) inline(s *spec.Schema) (_ *spec.Schema, err error) {
	if name := reference(s); name != "" {
		return i.named(name)
	}
	out := *s
	if len(s.Properties) > 0 {
		out.Properties = make(map[string]spec.Schema, len(s.Properties))
		for name, p := range s.Properties {
			part, err := i.inline(&p)
			if err != nil {
				return nil, err
			}
			out.Properties[name] = *part
		}
	}
	if a := s.AdditionalProperties; a != nil && a.Schema != nil {
		with := *a
		if with.Schema, err = i.inline(a.Schema); err != nil {
			return nil, err
		}
		out.AdditionalProperties = &with
	}
	if s.Items != nil && s.Items.Schema != nil {
		with := *s.Items
		if with.Schema, err = i.inline(s.Items.Schema); err != nil {
			return nil, err
		}
		out.Items = &with
	}
	return &out, nil
}

// reference returns the name of the schema that s refers to, or "". A reference with its own description is wrapped in
// allOf.
func reference(s *spec.Schema) string {
	if s.Ref.GetURL() != nil {
		return strings.TrimPrefix(s.Ref.String(), "#/components/schemas/")
	}
	for k := range s.AllOf {
		if name := reference(&s.AllOf[k]); name != "" {
			return name
		}
	}
	return ""
}
