package apiextensions

import (
	"context"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/kanzen-io/kanzen/internal/object/rules"
	"github.com/kanzen-io/kanzen/internal/object/schema"
)

type props = apiextensionsv1.JSONSchemaProps

// each yields the schemas of a map, which are half a kilobyte each: they share a copy, so that one is valid until the next.
func each[M ~map[string]props](all M) iter.Seq2[string, *props] {
	return func(yield func(string, *props) bool) {
		if len(all) == 0 {
			return
		}
		var name string
		s := new(props)
		for name, *s = range all {
			if !yield(name, s) {
				return
			}
		}
	}
}

// checkSchema validates the schema of a version; e is where errors are reported.
func checkSchema(ctx context.Context, s *apiextensionsv1.CustomResourceDefinitionSpec, v *apiextensionsv1.CustomResourceDefinitionVersion, status bool, l leniency, e rules.Errors) {
	p := schemaOf(v)
	if p == nil {
		return
	}
	found := rules.At(e.Path())
	defer func() { e.Add(found.List()) }()
	if status {
		checkRoot(p, found)
	}
	if p.Nullable {
		found.Field("openAPIV3Schema.nullable").Forbidden("nullable cannot be true at the root")
	}
	root := found.Field("openAPIV3Schema")
	w := &walker{leniency: l, sameSchema: l.sameSchema.Has(v.Name), expressions: rules.At(root.Path())}
	at := place{root: true}
	structured := !l.unstructured || !s.PreserveUnknownFields || anySchema(s, needsStructure)
	unsupported := structured && isUnsupported(p)
	if structured && !unsupported {
		faults := structural(p, rules.At(root.Path()))
		if len(faults.List()) == 0 {
			c := defaultsChecker{ctx, l.unknownInDefault, celconfig.RuntimeCELCostBudget}
			c.check(p, true, false, faults)
		}
		if len(faults.List()) == 0 {
			at.typed = typedRoot(p)
		}
		root.Add(faults.List())
	}
	w.check(p, at, root)
	root.Add(w.expressions.List())
	if unsupported && len(found.List()) == 0 {
		root.Invalid("", "has fields that are not supported")
	}
	w.cost.report(root)
}

// needsStructure reports whether a schema uses a feature that requires a structural schema.
func needsStructure(p *props) bool {
	return p.Default != nil || p.XEmbeddedResource || p.XPreserveUnknownFields != nil || p.XIntOrString ||
		len(p.XListMapKeys) > 0 || p.XListType != nil || len(p.XValidations) > 0
}

// checkRoot validates the root of a schema whose resource has a status subresource: a constraint at the root could
// reject a status update because of the spec.
func checkRoot(p *props, e rules.Errors) {
	at := e.Field("openAPIV3Schema")
	const rule = "only descriptions, properties and simple constraints are allowed at the root if the status subresource is enabled"
	if p.ID != "" || p.Schema != "" || p.Ref != nil {
		at.Invalid("", rule)
		return
	}
	if p.Type != "" && p.Type != "object" {
		e.Field("openAPIV3Schema.type").Invalid(p.Type, `must be "object" at the root if the status subresource is enabled`)
		return
	}
	rest := *p
	rest.Description, rest.Type, rest.Format, rest.Title, rest.Pattern = "", "", "", "", ""
	rest.Maximum, rest.Minimum, rest.MultipleOf = nil, nil, nil
	rest.ExclusiveMaximum, rest.ExclusiveMinimum, rest.UniqueItems = false, false, false
	rest.MaxLength, rest.MinLength, rest.MaxItems, rest.MinItems = nil, nil, nil, nil
	rest.Required, rest.Items, rest.Properties = nil, nil, nil
	rest.ExternalDocs, rest.Example = nil, nil
	rest.XPreserveUnknownFields, rest.XValidations = nil, nil
	if !reflect.DeepEqual(rest, props{}) {
		at.Invalid("", rule)
	}
}

// place is the position of a schema within the schema of a version.
type place struct {
	root         bool
	inMeta       bool        // within the metadata of a resource
	noDefault    string      // why a default is not allowed
	uncorrelated *field.Path // the part without an old value to compare with
	typed        *typed      // its CEL type; nil: none
}

// walker validates nested schemas. Errors in expressions are kept separate: they are reported only if there are no
// others.
type walker struct {
	leniency
	sameSchema  bool
	expressions rules.Errors
	cost        cost
}

func isType(t string) bool {
	return slices.Contains([]string{"string", "number", "integer", "boolean", "array", "object"}, t)
}

func (w *walker) check(p *props, at place, e rules.Errors) {
	if p == nil {
		return
	}
	before := len(e.List())
	w.checkSupported(p, at, e)
	w.checkWithin(p, at, e)
	checkMapType(p, e)
	w.checkListType(p, e)
	if !w.everyMapKey {
		looseKeys(p, e)
	}
	checkRules(p, e)
	if len(e.List()) == before && at.typed != nil && len(p.XValidations) > 0 {
		w.compile(p, at, e.Elsewhere(e.Path().Child("x-kubernetes-validations")))
	}
}

// checkSupported reports OpenAPI features that custom resources do not support.
func (w *walker) checkSupported(p *props, at place, e rules.Errors) {
	if !w.everyType && p.Type != "" {
		if !isType(p.Type) {
			e.AddError(field.NotSupported(e.Path().Child("type"), p.Type,
				[]string{"array", "boolean", "integer", "number", "object", "string"}))
		}
	}
	if p.Type == "null" {
		e.Field("type").Forbidden("type cannot be set to null, use nullable as an alternative")
	}
	if p.Default != nil && at.noDefault != "" {
		e.Field("default").Forbidden("must not be set " + at.noDefault)
	}
	for _, f := range []struct {
		name  string
		there bool
	}{
		{"id", p.ID != ""},
		{"additionalItems", p.AdditionalItems != nil},
		{"patternProperties", len(p.PatternProperties) > 0},
		{"definitions", len(p.Definitions) > 0},
		{"dependencies", p.Dependencies != nil},
		{"$ref", p.Ref != nil},
	} {
		if f.there {
			e.Field(f.name).Forbidden(f.name + " is not supported")
		}
	}
	if p.Items != nil && len(p.Items.JSONSchemas) > 0 {
		e.Field("items").Forbidden("items must be a schema object and not an array")
	}
	if at.inMeta && p.XEmbeddedResource {
		e.Field("x-kubernetes-embedded-resource").Forbidden("must not be used inside of resource meta")
	}
	if p.UniqueItems {
		e.Field("uniqueItems").Forbidden("uniqueItems cannot be set to true since the runtime complexity becomes quadratic")
	}
	if a := p.AdditionalProperties; a != nil && len(p.Properties) > 0 && (!a.Allows || a.Schema != nil) {
		e.Field("additionalProperties").Forbidden("additionalProperties and properties are mutual exclusive")
	}
	if p.XPreserveUnknownFields != nil && !*p.XPreserveUnknownFields {
		e.Field("x-kubernetes-preserve-unknown-fields").Invalid(false, "must be true or undefined")
	}
}

// checkWithin validates the subschemas of a schema.
func (w *walker) checkWithin(p *props, at place, e rules.Errors) {
	isRoot := at.root
	at.root = false
	if a := p.AdditionalProperties; a != nil && a.Schema != nil {
		sub := at
		if at.inMeta {
			sub.noDefault = "inside additionalProperties applying to object metadata"
		}
		sub.typed = at.typed.values(a.Schema)
		w.check(a.Schema, sub, e.Field("additionalProperties"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		w.checkProperty(p, name, isRoot, at, e)
	}
	if p.Items != nil {
		sub := at
		if p.XListType == nil || *p.XListType != "map" {
			sub = sub.uncorrelatedFrom(e.Path())
		}
		if p.Items.Schema != nil {
			sub.typed = at.typed.items(p.Items.Schema)
			w.check(p.Items.Schema, sub, e.Field("items"))
		}
		sub.typed = nil // a schema with several item schemas is not structural
		w.checkList(p.Items.JSONSchemas, sub, e.Field("items"))
	}

	at.typed = nil
	w.check(p.Not, at, e.Field("not"))
	w.checkList(p.AllOf, at, e.Field("allOf"))
	w.checkList(p.OneOf, at, e.Field("oneOf"))
	w.checkList(p.AnyOf, at, e.Field("anyOf"))
	for name, d := range p.Definitions {
		w.check(&d, at, e.Field("definitions").Key(name))
	}
	for name, d := range p.Dependencies {
		w.check(d.Schema, at, e.Field("dependencies").Key(name))
	}
}

func (w *walker) checkList(list []props, at place, e rules.Errors) {
	for i := range list {
		w.check(&list[i], at, e.Item(i))
	}
}

func (w *walker) checkProperty(p *props, name string, isRoot bool, at place, e rules.Errors) {
	s := p.Properties[name]
	sub := at
	if p.XMapType != nil && *p.XMapType != "atomic" && *p.XMapType != "granular" {
		sub = sub.uncorrelatedFrom(e.Path())
	}
	if (isRoot || p.XEmbeddedResource) && isResourceField(name) {
		sub.inMeta = true
		if isRoot {
			sub.noDefault = "in top-level " + name
		}
	}
	sub.typed = at.typed.property(name, &s)
	w.check(&s, sub, e.Field("properties").Key(name))
}

func (at place) uncorrelatedFrom(path *field.Path) place {
	if at.uncorrelated == nil {
		at.uncorrelated = path
	}
	return at
}

// hasType reports a schema whose type does not fit one of its extensions.
func hasType(p *props, want, extension string, e rules.Errors) bool {
	if p.Type == want {
		return true
	}
	if e.Present("type", p.Type) {
		e.Field("type").Invalid(p.Type, "must be "+want+" if "+extension+" is specified")
	}
	return false
}

func checkMapType(p *props, e rules.Errors) {
	if p.XMapType == nil {
		return
	}
	hasType(p, "object", "x-kubernetes-map-type", e)
	rules.OneOf(e, "x-kubernetes-map-type", *p.XMapType, []string{"atomic", "granular"})
}

// mergedItems returns the extension that the items of a set lack to be atomic.
func mergedItems(p *props) string {
	if p.XListType == nil || *p.XListType != "set" || p.Items == nil || p.Items.Schema == nil {
		return ""
	}
	switch i := p.Items.Schema; {
	case i.Type == "array" && i.XListType != nil && *i.XListType != "atomic":
		return "x-kubernetes-list-type"
	case i.Type == "object" && (i.XMapType == nil || *i.XMapType != "atomic"):
		return "x-kubernetes-map-type"
	}
	return ""
}

func (w *walker) checkListType(p *props, e rules.Errors) {
	const name, keys = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
	if p.XListType != nil {
		if hasType(p, "array", name, e) && !w.everySet {
			if extension := mergedItems(p); extension != "" {
				e.Field("items").Field(extension).Invalid("", "must be atomic as item of a list with x-kubernetes-list-type=set")
			}
		}
		rules.OneOf(e, name, *p.XListType, []string{"atomic", "set", "map"})
	}
	if len(p.XListMapKeys) > 0 {
		const rule = "must be map if x-kubernetes-list-map-keys is non-empty"
		if p.XListType == nil {
			e.Field(name).Required(rule)
		} else if *p.XListType != "map" {
			e.Field(name).Invalid(*p.XListType, rule)
		}
	}
	if p.XListType == nil || *p.XListType != "map" {
		return
	}
	if len(p.XListMapKeys) == 0 {
		e.Field(keys).Required("must not be empty if x-kubernetes-list-type is map")
	}
	items := e.Field("items")
	switch {
	case p.Items == nil:
		items.Required("must have a schema if x-kubernetes-list-type is map")
	case p.Items.Schema == nil:
		items.Invalid("", "must only have a single schema if x-kubernetes-list-type is map")
	case p.Items.Schema.Type != "object":
		items.Field("type").Invalid(p.Items.Schema.Type, "must be object if parent array's x-kubernetes-list-type is map")
	default:
		for i, k := range p.XListMapKeys {
			s, ok := p.Items.Schema.Properties[k]
			if !ok {
				e.Field(keys).Invalid(p.XListMapKeys, "entries must all be names of item properties")
			} else if s.Type == "array" || s.Type == "object" {
				items.Field("properties").Key(k).Field("type").Invalid(s.Type,
					"must be a scalar type if parent array's x-kubernetes-list-type is map")
			}
			if slices.Contains(p.XListMapKeys[:i], k) {
				e.Field(keys).Invalid(p.XListMapKeys, "must not contain duplicate entries")
			}
		}
	}
}

// looseKeys reports nullable items of sets and maps, and optional keys of maps.
func looseKeys(p *props, e rules.Errors) {
	if p.Items == nil || p.Items.Schema == nil || p.XListType == nil || *p.XListType != "set" && *p.XListType != "map" {
		return
	}
	items, at := p.Items.Schema, e.Field("items")
	if items.Nullable {
		at.Field("nullable").Forbidden("cannot be nullable when x-kubernetes-list-type is " + *p.XListType)
	}
	if *p.XListType != "map" {
		return
	}
	for _, k := range p.XListMapKeys {
		s, ok := items.Properties[k]
		if !ok {
			continue
		}
		key := at.Field("properties").Key(k)
		if s.Default == nil && !slices.Contains(items.Required, k) {
			key.Field("default").Required("a key of a map must have a default or be a required property")
		}
		if s.Nullable {
			key.Field("nullable").Forbidden("a key of a map cannot be nullable")
		}
	}
}

func hasLooseKeys(p *props) bool {
	e := rules.At(nil)
	looseKeys(p, e)
	return len(e.List()) > 0
}

// checkRules validates validation rules, except for their expressions.
func checkRules(p *props, e rules.Errors) {
	broken := func(s string) bool { return strings.ContainsAny(s, "\n\r") }
	for i := range p.XValidations {
		r, at := &p.XValidations[i], e.Field("x-kubernetes-validations").Item(i)
		rule, message := strings.TrimSpace(r.Rule), strings.TrimSpace(r.Message)
		switch {
		case rule == "":
			at.Field("rule").Required("rule is not specified")
		case r.Message != "" && message == "":
			at.Field("message").Invalid(r.Message, "must be non-empty if specified")
		case broken(message):
			at.Field("message").Invalid(r.Message, "must not contain line breaks")
		case broken(rule) && message == "":
			at.Field("message").Required("message must be specified if rule contains line breaks")
		}
		if r.MessageExpression != "" && strings.TrimSpace(r.MessageExpression) == "" {
			at.Field("messageExpression").Required("messageExpression must be non-empty if specified")
		}
		if r.Reason != nil {
			rules.OneOf(at, "reason", *r.Reason, []apiextensionsv1.FieldValueErrorReason{
				apiextensionsv1.FieldValueRequired, apiextensionsv1.FieldValueForbidden,
				apiextensionsv1.FieldValueInvalid, apiextensionsv1.FieldValueDuplicate})
		}
		if r.FieldPath == "" {
			continue
		}
		if strings.TrimSpace(r.FieldPath) == "" {
			at.Field("fieldPath").Invalid(r.FieldPath, "must be non-empty if specified")
		}
		if broken(r.FieldPath) {
			at.Field("fieldPath").Invalid(r.FieldPath, "must not contain line breaks")
		}
		if !isUnsupported(p) {
			if _, _, err := schema.LookUp(r.FieldPath, p, true); err != nil {
				at.Field("fieldPath").Invalid(r.FieldPath, "must be a valid path")
			}
		}
	}
}
