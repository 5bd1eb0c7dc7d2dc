package apiextensions

import (
	"crypto/x509"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// leniency lists the rules that a definition may break, because the stored one breaks them already. The zero value
// enforces all rules.
type leniency struct {
	everyBundle  bool // conversion webhooks may have an invalid CA bundle
	everyReview  bool // conversion webhooks may support no known review version
	noSchema     bool // versions may lack a schema
	everyType    bool // schemas may have unknown types
	unstructured bool // schemas need not be structural
	everySet     bool // sets may have items that are not atomic
	everyMapKey  bool // keys of list maps may be optional or null

	unknownInDefault bool // defaults may have fields that the schema does not contain

	rules, messages sets.Set[string] // expressions of the stored definition
	sameSchema      sets.Set[string] // versions with an unchanged schema
	manyFields      sets.Set[string] // versions that may have too many selectable fields
}

func lenientFor(d, old *apiextensionsv1.CustomResourceDefinition) leniency {
	s := &old.Spec
	l := leniency{
		everyBundle: !isEstablished(old),
		everyType: anySchema(s, func(p *apiextensionsv1.JSONSchemaProps) bool {
			return p.Type != "" && !isType(p.Type)
		}),
		everySet:    anySchema(s, func(p *apiextensionsv1.JSONSchemaProps) bool { return mergedItems(p) != "" }),
		everyMapKey: anySchema(s, hasLooseKeys),
		rules:       sets.New[string](),
		messages:    sets.New[string](),
		sameSchema:  sets.New[string](),
		manyFields:  sets.New[string](),
	}
	if c := s.Conversion; c != nil && c.Webhook != nil {
		if c.Webhook.ClientConfig != nil && len(c.Webhook.ClientConfig.CABundle) > 0 && !isBundle(c.Webhook.ClientConfig.CABundle) {
			l.everyBundle = true
		}
		l.everyReview = len(c.Webhook.ConversionReviewVersions) > 0
		for _, v := range c.Webhook.ConversionReviewVersions {
			l.everyReview = l.everyReview && !isReviewVersion(v)
		}
	}
	was := map[string]*apiextensionsv1.CustomResourceDefinitionVersion{}
	for i := range s.Versions {
		v := &s.Versions[i]
		was[v.Name] = v
		p := schemaOf(v)
		if p == nil {
			l.noSchema = true
		} else if isUnsupported(p) || len(structural(p, rules.At(nil)).List()) > 0 {
			l.unstructured = true
		} else {
			l.unknownInDefault = l.unknownInDefault || unknownInDefault(p, true)
		}
	}
	anySchema(s, func(p *apiextensionsv1.JSONSchemaProps) bool {
		for _, r := range p.XValidations {
			l.rules.Insert(r.Rule)
			l.messages.Insert(r.MessageExpression)
		}
		return false
	})
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		o := was[v.Name]
		if o == nil {
			continue
		}
		if equality.Semantic.DeepEqual(v.Schema, o.Schema) {
			l.sameSchema.Insert(v.Name)
		}
		if len(o.SelectableFields) > maxSelectableFields && equality.Semantic.DeepEqual(v.SelectableFields, o.SelectableFields) {
			l.manyFields.Insert(v.Name)
		}
	}
	return l
}

func isBundle(pem []byte) bool {
	return x509.NewCertPool().AppendCertsFromPEM(pem)
}

func schemaOf(v *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if v.Schema == nil {
		return nil
	}
	return v.Schema.OpenAPIV3Schema
}

// anySchema reports whether test is true for any schema, at any depth.
func anySchema(s *apiextensionsv1.CustomResourceDefinitionSpec, test func(*apiextensionsv1.JSONSchemaProps) bool) bool {
	for i := range s.Versions {
		if within(schemaOf(&s.Versions[i]), test) {
			return true
		}
	}
	return false
}

// within reports whether test is true for a schema or for any schema within it.
func within(s *apiextensionsv1.JSONSchemaProps, test func(*apiextensionsv1.JSONSchemaProps) bool) bool {
	if s == nil {
		return false
	}
	if test(s) || within(s.Not, test) {
		return true
	}
	if s.Items != nil && (within(s.Items.Schema, test) || inList(s.Items.JSONSchemas, test)) {
		return true
	}
	for _, b := range []*apiextensionsv1.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if b != nil && within(b.Schema, test) {
			return true
		}
	}
	for _, d := range s.Dependencies {
		if within(d.Schema, test) {
			return true
		}
	}
	return inList(s.AllOf, test) || inList(s.AnyOf, test) || inList(s.OneOf, test) ||
		inMap(s.Properties, test) || inMap(s.PatternProperties, test) || inMap(s.Definitions, test)
}

func inList(l []apiextensionsv1.JSONSchemaProps, test func(*apiextensionsv1.JSONSchemaProps) bool) bool {
	for i := range l {
		if within(&l[i], test) {
			return true
		}
	}
	return false
}

func inMap[M ~map[string]apiextensionsv1.JSONSchemaProps](m M, test func(*apiextensionsv1.JSONSchemaProps) bool) bool {
	for _, s := range each(m) {
		if within(s, test) {
			return true
		}
	}
	return false
}
