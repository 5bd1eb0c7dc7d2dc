package apiextensions

import (
	"context"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
	"github.com/kanzen-io/kanzen/internal/object/schema"
)

// shared says which parts are the same in all versions. v1beta1 has these parts once for all versions, and their errors
// are still reported there: at spec.validation instead of spec.versions[0].schema.
type shared struct{ schema, subresources, columns, fields bool }

func sharedBy(versions []apiextensionsv1.CustomResourceDefinitionVersion) shared {
	if len(versions) == 0 {
		return shared{}
	}
	s, first := shared{true, true, true, true}, &versions[0]
	for i := range versions[1:] {
		v := &versions[i+1]
		s.schema = s.schema && equality.Semantic.DeepEqual(v.Schema, first.Schema)
		s.subresources = s.subresources && equality.Semantic.DeepEqual(v.Subresources, first.Subresources)
		s.columns = s.columns && equality.Semantic.DeepEqual(v.AdditionalPrinterColumns, first.AdditionalPrinterColumns)
		s.fields = s.fields && equality.Semantic.DeepEqual(v.SelectableFields, first.SelectableFields)
	}
	return s
}

func hasStatus(r *apiextensionsv1.CustomResourceSubresources) bool {
	return r != nil && r.Status != nil
}

func checkVersions(ctx context.Context, s *apiextensionsv1.CustomResourceDefinitionSpec, l leniency, e rules.Errors) {
	all := sharedBy(s.Versions)
	stored, anyStatus := 0, false
	list := e.Field("versions")
	for i := range s.Versions {
		v, at := &s.Versions[i], list.Item(i)
		if v.Storage {
			stored++
		}
		anyStatus = anyStatus || hasStatus(v.Subresources)
		label(v.Name, at.Field("name"))
		checkDeprecation(v, at.Field("deprecationWarning"))
		if schemaOf(v) == nil && (!l.noSchema || !s.PreserveUnknownFields && v.Served) {
			at.Field("schema").Field("openAPIV3Schema").Required("")
		}
		if !all.schema {
			checkSchema(ctx, s, v, hasStatus(v.Subresources), l, at.Field("schema"))
		}
		if !all.subresources {
			checkSubresources(v.Subresources, at.Field("subresources"))
		}
		if !all.columns {
			checkColumns(v.AdditionalPrinterColumns, at.Field("additionalPrinterColumns"))
		}
		if !all.fields {
			checkFields(v, !all.schema, l, at.Field("selectableFields"))
		}
	}
	if slices.ContainsFunc(s.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return count(s.Versions, v.Name) > 1
	}) {
		list.Invalid("", "must contain unique version names")
	}
	if stored != 1 {
		list.Invalid(s.Versions, "must have exactly one version marked as storage version")
	}
	if len(s.Versions) == 0 {
		return
	}
	first := &s.Versions[0]
	if first.Name != "" {
		label(first.Name, e.Field("version"))
	}
	if all.schema {
		checkSchema(ctx, s, first, anyStatus, l, e.Field("validation"))
	}
	if all.subresources {
		checkSubresources(first.Subresources, e.Field("subresources"))
	}
	if all.columns {
		checkColumns(first.AdditionalPrinterColumns, e.Field("additionalPrinterColumns"))
	}
	if all.fields {
		checkFields(first, all.schema, l, e.Field("selectableFields"))
	}
}

func count(versions []apiextensionsv1.CustomResourceDefinitionVersion, name string) int {
	n := 0
	for i := range versions {
		if versions[i].Name == name {
			n++
		}
	}
	return n
}

func checkColumns(columns []apiextensionsv1.CustomResourceColumnDefinition, e rules.Errors) {
	types := []string{"boolean", "date", "integer", "number", "string"}
	formats := []string{"byte", "date", "date-time", "double", "float", "int32", "int64", "password"}
	for i := range columns {
		c, at := &columns[i], e.Item(i)
		at.Present("name", c.Name)
		if at.Present("type", c.Type) && !slices.Contains(types, c.Type) {
			at.Field("type").Invalid(c.Type, "must be one of "+strings.Join(types, ","))
		}
		if c.Format != "" && !slices.Contains(formats, c.Format) {
			at.Field("format").Invalid(c.Format, "must be one of "+strings.Join(formats, ","))
		}
		if at.Present("JSONPath", c.JSONPath) && c.JSONPath[0] != '.' {
			at.Field("JSONPath").Invalid(c.JSONPath, "must be a simple json path starting with .")
		}
	}
}

func checkSubresources(r *apiextensionsv1.CustomResourceSubresources, e rules.Errors) {
	if r == nil || r.Scale == nil {
		return
	}
	under := func(name, value string, roots ...string) {
		at := e.Field("scale." + name) // as one path element
		switch {
		case value == "":
			at.Required("")
		case value[0] != '.':
			at.Invalid(value, "must be a simple json path starting with .")
		case !slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(value, root) }):
			at.Invalid(value, "should be a json path under "+strings.Join(roots, " or "))
		}
	}
	under("specReplicasPath", r.Scale.SpecReplicasPath, ".spec.")
	under("statusReplicasPath", r.Scale.StatusReplicasPath, ".status.")
	if p := r.Scale.LabelSelectorPath; p != nil && *p != "" {
		under("labelSelectorPath", *p, ".spec.", ".status.")
	}
}

// checkFields validates the selectable fields. known means that the schema is in the same place as the fields.
func checkFields(v *apiextensionsv1.CustomResourceDefinitionVersion, known bool, l leniency, e rules.Errors) {
	if len(v.SelectableFields) == 0 {
		return
	}
	root := schemaOf(v)
	if !known || root == nil {
		e.Invalid("", "may only be set together with a schema")
		return
	}
	if isUnsupported(root) {
		e.Elsewhere(schemaPath(e.Path())).Invalid("", "is not supported")
	}
	var seen []string
	for i, f := range v.SelectableFields {
		at := e.Item(i)
		if !at.Present("jsonPath", f.JSONPath) {
			continue
		}
		at = at.Field("jsonPath")
		path, found, err := schema.LookUp(f.JSONPath, root, false)
		if err != nil {
			at.Invalid(f.JSONPath, "is an invalid path: "+err.Error())
			continue
		}
		if path.Root().String() == "metadata" {
			at.Invalid(f.JSONPath, "must not point to fields in metadata")
		}
		if found == nil || !slices.Contains([]string{"string", "boolean", "integer"}, found.Type) {
			at.Invalid(f.JSONPath, "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.")
		}
		if slices.Contains(seen, path.String()) {
			at.Duplicate(f.JSONPath)
			continue
		}
		seen = append(seen, path.String())
	}
	if len(seen) > maxSelectableFields && !l.manyFields.Has(v.Name) {
		e.AddError(field.TooMany(e.Path(), len(seen), maxSelectableFields))
	}
}

// schemaPath returns the path for errors in a schema that are found while selectable fields are validated.
func schemaPath(fields *field.Path) *field.Path {
	parent := strings.TrimSuffix(fields.String(), ".selectableFields")
	return field.NewPath(parent).Child("schema.openAPIV3Schema")
}
