package apiextensions

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

const definition = `
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: foos, kind: Foo}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}}}
`

func versions(extra string, names ...string) string {
	var out []string
	for i, n := range names {
		storage := "false"
		if i == 0 {
			storage = "true"
		}
		out = append(out, "{name: "+n+", served: true, storage: "+storage+extra+"}")
	}
	return "{spec: {versions: [" + strings.Join(out, ", ") + "]}}"
}

func TestDefinitions(t *testing.T) {
	k := rulestest.Of(t, Resources(), "customresourcedefinitions", definition)
	const schema = ", schema: {openAPIV3Schema: {type: object}}"
	k.Create(t, []rulestest.Case{
		{Name: "name", Edit: `{metadata: {name: bars.example.com}}`, Want: []string{"metadata.name Invalid"}},
		{Name: "group", Edit: `{metadata: {name: foos.example}, spec: {group: example}}`, Want: []string{"spec.group Invalid"}},
		{Name: "scope", Edit: `{spec: {scope: Everywhere}}`, Want: []string{"spec.scope NotSupported"}},
		{Name: "kinds", Edit: `{spec: {names: {kind: Foo, listKind: Foo, shortNames: [F]}}}`,
			Want: []string{"spec.names.listKind Invalid", "spec.names.shortNames[0] Invalid"}},
		{Name: "protected", Edit: `{metadata: {name: foos.x.k8s.io}, spec: {group: x.k8s.io}}`,
			Want: []string{"metadata.annotations[api-approved.kubernetes.io] Required"}},
		{Name: "approved", Edit: `{metadata: {name: foos.x.k8s.io, annotations: {api-approved.kubernetes.io: "https://example.com/1"}}, spec: {group: x.k8s.io}}`},
		{Name: "no schema", Edit: versions("", "v1"), Want: []string{"spec.versions[0].schema.openAPIV3Schema Required"}},
		{Name: "version twice", Edit: versions(schema, "v1", "v1"), Want: []string{"spec.versions Invalid"}},
		{Name: "two versions", Edit: versions(schema, "v1", "v2")},
		{Name: "columns", Edit: versions(schema+", additionalPrinterColumns: [{name: a, type: x, jsonPath: a}]", "v1"),
			Want: []string{"spec.additionalPrinterColumns[0].JSONPath Invalid", "spec.additionalPrinterColumns[0].type Invalid"}},
		{Name: "scale", Edit: versions(schema+", subresources: {scale: {specReplicasPath: .a, statusReplicasPath: ''}}", "v1"),
			Want: []string{"spec.subresources.scale.specReplicasPath Invalid", "spec.subresources.scale.statusReplicasPath Required"}},
		{Name: "unknown fields", Edit: `{spec: {preserveUnknownFields: true}}`, Want: []string{"spec.preserveUnknownFields Invalid"}},
		{Name: "webhook", Edit: `{spec: {conversion: {strategy: Webhook}}}`,
			Want: []string{"spec.conversion.conversionReviewVersions Required", "spec.conversion.webhookClientConfig Required"}},
		{Name: "no webhook", Edit: `{spec: {conversion: {strategy: None, webhook: {conversionReviewVersions: [v1]}}}}`,
			Want: []string{"spec.conversion.conversionReviewVersions Forbidden"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "kind, not served yet", Edit: `{spec: {names: {kind: Bar}}}`},
		{Name: "group", Edit: `{spec: {group: example.org}}`, Want: []string{"spec.group Invalid"}},
		{Name: "stored version", Edit: versions(schema, "v2"), Want: []string{"status.storedVersions[0] Invalid"}},
	})

	served, _ := k.Created(t, "")
	d := served.(*apiextensionsv1.CustomResourceDefinition)
	d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	if _, faults := k.UpdatedFrom(t, "", d, `{spec: {names: {kind: Bar, listKind: BarList, singular: bar}}}`); !slices.Equal(faults, []string{"spec.names.kind Invalid"}) {
		t.Errorf("kind of a served definition: %q", faults)
	}
}

// An update may keep violations of the stored definition.
func TestLeniency(t *testing.T) {
	k := rulestest.Of(t, Resources(), "customresourcedefinitions", definition)
	loose := versions(`, schema: {openAPIV3Schema: {type: object, properties: {a: {type: array, x-kubernetes-list-type: set, items: {type: object, properties: {b: {type: string}}}}}}}`, "v1")
	obj, faults := k.Created(t, loose)
	if !slices.Equal(faults, []string{"spec.validation.openAPIV3Schema.properties[a].items.x-kubernetes-map-type Invalid"}) {
		t.Fatalf("created: %q", faults)
	}
	if _, faults := k.UpdatedFrom(t, "", obj, loose); len(faults) > 0 {
		t.Errorf("updated: %q", faults)
	}
}

func parse(t *testing.T, text string) *props {
	t.Helper()
	p := new(props)
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSchemas(t *testing.T) {
	tests := []struct {
		name, schema string
		want         []string // paths below openAPIV3Schema
	}{
		{"plain", `{type: object, properties: {a: {type: integer}}}`, nil},
		{"no type", `{type: object, properties: {a: {}}}`, []string{"properties[a].type Required"}},
		{"array", `{type: object, properties: {a: {type: array}}}`, []string{"properties[a].items Required"}},
		{"map at the root", `{type: object, additionalProperties: {type: string}}`, []string{"additionalProperties Forbidden"}},
		{"int or string", `{type: object, properties: {a: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}}}`, nil},
		{"string or int", `{type: object, properties: {a: {x-kubernetes-int-or-string: true, anyOf: [{type: string}, {type: integer}]}}}`,
			[]string{"properties[a].anyOf[0].type Forbidden", "properties[a].anyOf[1].type Forbidden"}},
		{"incomplete", `{type: object, anyOf: [{properties: {b: {minLength: 1}}}]}`, []string{"properties[b] Required"}},
		{"metadata", `{type: object, properties: {metadata: {type: object, properties: {name: {type: string, maxLength: 3}}}}}`, nil},
		{"more metadata", `{type: object, properties: {metadata: {type: object, properties: {labels: {type: object}}}}}`, []string{"properties[metadata] Forbidden"}},
		{"pattern", `{type: object, properties: {a: {type: string, pattern: "["}}}`, []string{"properties[a].pattern Invalid"}},
		{"unsupported", `{type: object, properties: {a: {type: string, id: x, uniqueItems: true}}}`,
			[]string{"properties[a].id Forbidden", "properties[a].uniqueItems Forbidden"}},
		{"$schema", `{type: object, $schema: x}`, []string{" Invalid"}},
		{"map keys", `{type: object, properties: {a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, properties: {k: {type: string}}}}}}`,
			[]string{"properties[a].items.properties[k].default Required", "properties[a].x-kubernetes-list-map-keys Invalid"}},
		{"default", `{type: object, properties: {a: {type: string, default: 1}, b: {type: object, default: {x: 1}}}}`,
			[]string{"properties[a].default TypeInvalid", "properties[b].default Invalid"}},
		{"rules of defaults", `{type: object, properties: {a: {type: integer, default: 1, x-kubernetes-validations: [{rule: self > 1}]},
  b: {type: object, default: {}, x-kubernetes-validations: [{rule: has(self.x), fieldPath: .x, reason: FieldValueRequired}], properties: {x: {type: integer}}},
  c: {type: object, default: {}, x-kubernetes-validations: [{rule: has(self.none)}], properties: {x: {type: integer}}},
  d: {type: integer, default: 1, x-kubernetes-validations: [{rule: self > oldSelf.orValue(0) + 1, optionalOldSelf: true}]},
  e: {type: integer, default: 2, x-kubernetes-validations: [{rule: self > 1 && oldSelf.orValue(0) != 1, optionalOldSelf: true}]},
  f: {type: integer, x-kubernetes-validations: [{rule: self.none}]}}}`,
			[]string{"properties[a].default Invalid", "properties[b].default.x Required", "properties[c].default Invalid", "properties[d].default Invalid"}},
		{"rule", `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > 1}, {rule: self > "a"}, {rule: self}]}}}`,
			[]string{"properties[a].x-kubernetes-validations[1].rule Invalid", "properties[a].x-kubernetes-validations[2].rule Invalid"}},
		{"root rule", `{type: object, x-kubernetes-validations: [{rule: self.metadata.name == "a"}, {rule: self.metadata.labels.size() > 1}]}`,
			[]string{"x-kubernetes-validations[1].rule Invalid"}},
		{"old value in a list", `{type: object, properties: {a: {type: array, maxItems: 5, items: {type: string, maxLength: 5, x-kubernetes-validations: [{rule: self == oldSelf}]}}}}`,
			[]string{"properties[a].items.x-kubernetes-validations[0].rule Invalid"}},
		{"expensive rule", `{type: object, properties: {a: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self.matches('a')"}]}}}}`,
			[]string{" Forbidden", "properties[a].items.x-kubernetes-validations[0].rule Forbidden"}},
		{"optional old value", `{type: object, properties: {a: {type: string, x-kubernetes-validations: [
  {rule: oldSelf.orValue("a") == self, optionalOldSelf: true}, {rule: self == "a", optionalOldSelf: true}]}}}`,
			[]string{"properties[a].x-kubernetes-validations[1].optionalOldSelf Invalid"}},
		{"message", `{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: "true", messageExpression: "1"}, {rule: " "}]}}}`,
			[]string{"properties[a].x-kubernetes-validations[1].rule Required"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := &apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: parse(t, test.schema)}}}}
			e := rules.At(nil)
			checkSchema(t.Context(), d, &d.Versions[0], false, leniency{}, e)
			var got []string
			for _, err := range e.List() {
				path := strings.TrimPrefix(strings.TrimPrefix(err.Field, "openAPIV3Schema"), ".")
				got = append(got, path+" "+strings.TrimPrefix(string(err.Type), "FieldValue"))
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, test.want) {
				t.Errorf("got %q\nwant %q\n%v", got, test.want, e.List().ToAggregate())
			}
		})
	}
}
