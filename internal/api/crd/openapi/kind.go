package openapi

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
)

// kind is a version of a custom resource.
type kind struct {
	*common
	group, version, name, list, plural string
	namespaced, status, scale          bool
	preserve                           bool // preserves unknown fields, by an old definition
	schema                             *apiextensionsv1.JSONSchemaProps
	selectable                         []apiextensionsv1.SelectableField
	connects                           []catalog.Connect
	verbs                              []string // nil: all
}

func load(s *catalog.Definition, version string, c *common) (*kind, error) {
	d, err := s.Load()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if i < 0 {
		return nil, fmt.Errorf("%s has no version %s", d.Name, version)
	}
	v := &d.Spec.Versions[i]
	k := &kind{
		common: c, group: d.Spec.Group, version: version,
		name: d.Spec.Names.Kind, list: d.Spec.Names.ListKind, plural: d.Spec.Names.Plural,
		namespaced: d.Spec.Scope == apiextensionsv1.NamespaceScoped,
		preserve:   d.Spec.PreserveUnknownFields,
		selectable: v.SelectableFields,
		connects:   s.Connects,
		verbs:      s.Verbs,
	}
	if v.Subresources != nil {
		k.status, k.scale = v.Subresources.Status != nil, v.Subresources.Scale != nil
	}
	if v.Schema != nil {
		k.schema = v.Schema.OpenAPIV3Schema
	}
	return k, nil
}

// model returns the name of a kind's schema.
func (k *kind) model(name string) string {
	parts := strings.Split(k.group, ".")
	slices.Reverse(parts)
	return strings.Join(append(parts, k.version, name), ".")
}

// ref returns a reference to a schema.
func (c *common) ref(name string) object {
	if c.v2 {
		return object{"$ref": "#/definitions/" + name}
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// described returns a reference with a description, which v3 references cannot have.
func (c *common) described(name, description string) object {
	if c.v2 {
		return object{"$ref": "#/definitions/" + name, "description": description}
	}
	return object{"allOf": []any{c.ref(name)}, "description": description}
}

// identifier returns a text as a part of an operation ID.
func identifier(s string, capital bool) string {
	var b strings.Builder
	for i, r := range s {
		if !unicode.IsLetter(r) && r != '_' && (i == 0 || !unicode.IsDigit(r)) {
			capital = true
			continue
		}
		if capital {
			r, capital = unicode.ToUpper(r), false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// article returns the article before the kind in a sentence.
func (k *kind) article() string {
	switch {
	case strings.HasSuffix(k.name, "s") && !strings.HasSuffix(k.name, "ss"):
		return " "
	case strings.ContainsAny(k.name[:min(1, len(k.name))], "aeiouAEIOU"):
		return " an "
	}
	return " a "
}
