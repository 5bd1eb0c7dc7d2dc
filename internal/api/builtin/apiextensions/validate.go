package apiextensions

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// Limits of definitions.
const (
	maxDeprecationWarning = 256
	maxSelectableFields   = 8
)

func validate(ctx context.Context, d *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.GenericMeta(&d.ObjectMeta, false, func(name string, prefix bool) []string {
		m := rules.Subdomain(name, prefix)
		if name != d.Spec.Names.Plural+"."+d.Spec.Group {
			m = append(m, `must be spec.names.plural+"."+spec.group`)
		}
		return m
	}))
	strict := leniency{everyBundle: true}
	checkSpec(ctx, &d.Spec, strict, e.Field("spec"))
	checkStatus(d, e.Field("status"))
	checkApproval(d, nil, e)
	if d.Spec.PreserveUnknownFields {
		preservesUnknown(e)
	}
	return e.List()
}

func validateUpdate(ctx context.Context, d, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.GenericMetaUpdate(&d.ObjectMeta, &old.ObjectMeta))
	s := e.Field("spec")
	checkSpec(ctx, &d.Spec, lenientFor(d, old), s)
	names := s.Field("names")
	if isEstablished(old) {
		s.Unchanged("scope", d.Spec.Scope, old.Spec.Scope)
		names.Unchanged("kind", d.Spec.Names.Kind, old.Spec.Names.Kind)
	}
	s.Unchanged("group", d.Spec.Group, old.Spec.Group)
	names.Unchanged("plural", d.Spec.Names.Plural, old.Spec.Names.Plural)
	checkStatus(d, e.Field("status"))
	checkApproval(d, old, e)
	if d.Spec.PreserveUnknownFields && !old.Spec.PreserveUnknownFields {
		preservesUnknown(e)
	}
	return e.List()
}

func validateStatus(_ context.Context, d, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.GenericMetaUpdate(&d.ObjectMeta, &old.ObjectMeta))
	checkNames(&d.Status.AcceptedNames, e.Field("status").Field("acceptedNames"))
	return e.List()
}

func preservesUnknown(e rules.Errors) {
	e.Field("spec").Field("preserveUnknownFields").Invalid(true,
		"must be false: set x-kubernetes-preserve-unknown-fields in the schema instead")
}

// isEstablished reports whether the condition Established is true.
func isEstablished(d *apiextensionsv1.CustomResourceDefinition) bool {
	i := slices.IndexFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established
	})
	return i >= 0 && d.Status.Conditions[i].Status == apiextensionsv1.ConditionTrue
}

func checkSpec(ctx context.Context, s *apiextensionsv1.CustomResourceDefinitionSpec, l leniency, e rules.Errors) {
	if e.Present("group", s.Group) {
		if m := validation.IsDNS1123Subdomain(s.Group); len(m) > 0 {
			e.Field("group").Invalid(s.Group, strings.Join(m, ","))
		} else if !strings.Contains(s.Group, ".") {
			e.Field("group").Invalid(s.Group, "should be a domain with at least one dot")
		}
	}
	rules.RequiredOneOf(e, "scope", s.Scope, []apiextensionsv1.ResourceScope{
		apiextensionsv1.ClusterScoped, apiextensionsv1.NamespaceScoped})

	checkVersions(ctx, s, l, e)

	n := e.Field("names")
	n.Present("plural", s.Names.Plural)
	n.Present("singular", s.Names.Singular)
	n.Present("kind", s.Names.Kind)
	n.Present("listKind", s.Names.ListKind)
	checkNames(&s.Names, n)

	if s.PreserveUnknownFields {
		if anySchema(s, func(p *apiextensionsv1.JSONSchemaProps) bool { return p.Default != nil }) {
			e.Field("preserveUnknownFields").Invalid(true, "must be false in order to use defaults in the schema")
		}
		if s.Conversion != nil && s.Conversion.Strategy != apiextensionsv1.NoneConverter {
			e.Field("conversion").Field("strategy").Invalid(s.Conversion.Strategy,
				"must be None if spec.preserveUnknownFields is true")
		}
	}
	if s.Conversion != nil {
		checkConversion(s.Conversion, l, e.Field("conversion"))
	}
}

// label validates a name that must be a DNS label with a leading letter.
func label(name string, e rules.Errors) {
	if m := validation.IsDNS1035Label(name); len(m) > 0 {
		e.Invalid(name, strings.Join(m, ","))
	}
}

func checkNames(n *apiextensionsv1.CustomResourceDefinitionNames, e rules.Errors) {
	for _, f := range []struct{ name, value string }{{"plural", n.Plural}, {"singular", n.Singular}} {
		if f.value != "" {
			label(f.value, e.Field(f.name))
		}
	}
	for _, f := range []struct{ name, value string }{{"kind", n.Kind}, {"listKind", n.ListKind}} {
		if m := validation.IsDNS1035Label(strings.ToLower(f.value)); f.value != "" && len(m) > 0 {
			e.Field(f.name).Invalid(f.value, "may have mixed case, but should otherwise match: "+strings.Join(m, ","))
		}
	}
	if n.Kind != "" && n.Kind == n.ListKind {
		e.Field("listKind").Invalid(n.ListKind, "kind and listKind may not be the same")
	}
	for i, s := range n.ShortNames {
		label(s, e.Field("shortNames").Item(i))
	}
	for i, c := range n.Categories {
		label(c, e.Field("categories").Item(i))
	}
}

func checkStatus(d *apiextensionsv1.CustomResourceDefinition, e rules.Errors) {
	checkNames(&d.Status.AcceptedNames, e.Field("acceptedNames"))

	stored := d.Status.StoredVersions
	e = e.Field("storedVersions")
	if len(stored) == 0 {
		e.Invalid(stored, "must have at least one stored version")
		return
	}
	known := sets.New[string]()
	for _, v := range d.Spec.Versions {
		if v.Storage && (known.Has(v.Name) || !slices.Contains(stored, v.Name)) {
			e.Invalid(stored, "must have the storage version "+v.Name)
		}
		known.Insert(v.Name)
	}
	for i, v := range stored {
		if !known.Has(v) && !slices.Contains(stored[i+1:], v) {
			e.Item(i).Invalid(v, "missing from spec.versions; objects may still be stored in it: migrate them, and remove it from status.storedVersions")
		}
	}
}

// approval is the kind of value of the api-approved annotation.
type approval string

const (
	approvalMissing  approval = "missing"
	approvalInvalid  approval = "invalid"
	approvalGiven    approval = "given"
	approvalBypassed approval = "bypassed"
)

func approvalOf(d *apiextensionsv1.CustomResourceDefinition) approval {
	text := d.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation]
	if text == "" {
		return approvalMissing
	}
	if strings.HasPrefix(text, "unapproved") {
		return approvalBypassed
	}
	if u, err := url.ParseRequestURI(text); err == nil && u.Host != "" && u.Scheme != "" {
		return approvalGiven
	}
	return approvalInvalid
}

// checkApproval reports a definition in a protected group without a link to its API review, unless the stored one had
// none either.
func checkApproval(d, old *apiextensionsv1.CustomResourceDefinition, e rules.Errors) {
	group := "." + d.Spec.Group
	if !strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".kubernetes.io") {
		return
	}
	a := approvalOf(d)
	if old != nil && approvalOf(old) == a {
		return
	}
	e = e.Field("metadata").Field("annotations").Key(apiextensionsv1.KubeAPIApprovedAnnotation)
	const rule = `must be the URL of the API's review, or start with "unapproved"`
	switch a {
	case approvalMissing:
		e.Required(rule)
	case approvalInvalid:
		e.Invalid(d.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation], rule)
	}
}

func checkConversion(c *apiextensionsv1.CustomResourceConversion, l leniency, e rules.Errors) {
	rules.RequiredOneOf(e, "strategy", c.Strategy, []apiextensionsv1.ConversionStrategyType{
		apiextensionsv1.NoneConverter, apiextensionsv1.WebhookConverter})
	// Errors are reported at the fields of v1beta1.
	client, reviews := e.Field("webhookClientConfig"), e.Field("conversionReviewVersions")
	var (
		config   *apiextensionsv1.WebhookClientConfig
		versions []string
	)
	if c.Webhook != nil {
		config, versions = c.Webhook.ClientConfig, c.Webhook.ConversionReviewVersions
	}
	if c.Strategy != apiextensionsv1.WebhookConverter {
		if config != nil {
			client.Forbidden("should not be set when strategy is not set to Webhook")
		}
		if len(versions) > 0 {
			reviews.Forbidden("should not be set when strategy is not set to Webhook")
		}
		return
	}
	if config == nil {
		client.Required("required when strategy is set to Webhook")
	} else {
		checkClient(config, l, client)
	}
	checkReviewVersions(versions, l, reviews)
}

func checkClient(c *apiextensionsv1.WebhookClientConfig, l leniency, e rules.Errors) {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		e.Required("exactly one of url or service is required")
	case c.URL != nil:
		rules.WebhookURL(*c.URL, e.Field("url"))
	default:
		var port int32
		if c.Service.Port != nil {
			port = *c.Service.Port
		}
		// Name and namespace are swapped, for compatibility.
		rules.WebhookService(c.Service.Name, c.Service.Namespace, c.Service.Path, port, e.Field("service"))
	}
	if len(c.CABundle) > 0 && !l.everyBundle && !isBundle(c.CABundle) {
		e.Field("caBundle").Invalid("<bytes>", "must be PEM encoded certificates")
	}
}

func isReviewVersion(v string) bool { return v == "v1" || v == "v1beta1" }

func checkReviewVersions(versions []string, l leniency, e rules.Errors) {
	if len(versions) == 0 {
		e.Required("")
		return
	}
	for i, v := range versions {
		if slices.Contains(versions[:i], v) {
			e.Item(i).Invalid(v, "duplicate version")
			continue
		}
		e.Item(i).Messages(v, validation.IsDNS1035Label(v))
	}
	if !l.everyReview && !slices.ContainsFunc(versions, isReviewVersion) {
		e.Invalid(versions, "must include at least one of v1, v1beta1")
	}
}

func checkDeprecation(v *apiextensionsv1.CustomResourceDefinitionVersion, e rules.Errors) {
	if v.DeprecationWarning == nil {
		return
	}
	text := *v.DeprecationWarning
	if !v.Deprecated {
		e.Invalid(text, "can only be set for deprecated versions")
		return
	}
	if len(text) > maxDeprecationWarning {
		e.Invalid(text, "must be <= 256 characters long")
	}
	if text == "" {
		e.Invalid(text, "must not be an empty string")
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		e.Invalid(text, "must only contain printable UTF-8 characters")
	}
}
