package apiextensions

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/utils/ptr"
)

// Schemas of v1 and v1beta1 are passed as the same memory.
func TestSchemasAreTheSame(t *testing.T) {
	sameMemory(t, reflect.TypeFor[apiextensionsv1.CustomResourceValidation](), reflect.TypeFor[apiextensionsv1beta1.CustomResourceValidation](), map[reflect.Type]bool{})
}

func sameMemory(t *testing.T, a, b reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	if a == b || seen[a] {
		return
	}
	seen[a] = true
	if a.Kind() != b.Kind() || a.Size() != b.Size() || a.Kind() == reflect.Interface {
		t.Fatalf("%s is not %s", a, b)
	}
	switch a.Kind() {
	case reflect.Struct:
		if a.NumField() != b.NumField() {
			t.Fatalf("%s has other fields than %s", a, b)
		}
		for n := range a.NumField() {
			x, y := a.Field(n), b.Field(n)
			if x.Name != y.Name || x.Offset != y.Offset || x.Tag != y.Tag {
				t.Errorf("%s: %v and %v", a, x, y)
			}
			sameMemory(t, x.Type, y.Type, seen)
		}
	case reflect.Map:
		sameMemory(t, a.Key(), b.Key(), seen)
		sameMemory(t, a.Elem(), b.Elem(), seen)
	case reflect.Pointer, reflect.Slice:
		sameMemory(t, a.Elem(), b.Elem(), seen)
	}
}

// schemas makes random schemas.
type schemas struct {
	*rand.Rand
	odd bool // JSON is not always as the library writes it
}

func (r schemas) json() apiextensionsv1.JSON {
	all := []string{`"a"`, `"a b"`, `1`, `0`, `true`, `false`, `{"a":1,"b":[1,"x"]}`, `[]`, `{}`, `""`, `1.5`, `-7`, `123456789012345678`, `9007199254740993`}
	if r.odd {
		all = append(all, `null`, ``, `{"b":1,"a":2}`, `[1, 2]`, `1.0`, `1e3`, `"<&>"`, `"\u003c"`, `"é"`, `-0`, `12345678901234567890`, `{"a":null}`, `"\n"`, `"\/"`)
	}
	if raw := all[r.IntN(len(all))]; raw != "" {
		return apiextensionsv1.JSON{Raw: []byte(raw)}
	}
	return apiextensionsv1.JSON{}
}

func (r schemas) props(depth int) apiextensionsv1.JSONSchemaProps {
	p := apiextensionsv1.JSONSchemaProps{Type: []string{"", "object", "string"}[r.IntN(3)], Nullable: r.IntN(2) == 0, Description: "d"}
	some := func() bool { return r.IntN(4) == 0 }
	if some() {
		p.Default = ptr.To(r.json())
	}
	if some() {
		p.Example = ptr.To(r.json())
	}
	if some() {
		p.Enum = []apiextensionsv1.JSON{r.json(), r.json()}
	}
	if some() {
		p.Maximum, p.MaxLength, p.XPreserveUnknownFields, p.Required = ptr.To(1.5), ptr.To[int64](7), ptr.To(true), []string{"a"}
		p.XValidations = apiextensionsv1.ValidationRules{{Rule: "true", Message: "m", FieldPath: ".a"}}
		p.ExternalDocs = &apiextensionsv1.ExternalDocumentation{URL: "u"}
	}
	if depth == 0 {
		return p
	}
	sub := func() *apiextensionsv1.JSONSchemaProps { return ptr.To(r.props(depth - 1)) }
	orBool := func() *apiextensionsv1.JSONSchemaPropsOrBool {
		if r.IntN(2) == 0 {
			return &apiextensionsv1.JSONSchemaPropsOrBool{Allows: r.IntN(2) == 0}
		}
		return &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: sub()}
	}
	named := func() map[string]apiextensionsv1.JSONSchemaProps {
		out := map[string]apiextensionsv1.JSONSchemaProps{}
		for n := range r.IntN(3) {
			out[fmt.Sprint("f", n)] = *sub()
		}
		return out
	}
	for _, set := range []func(){
		func() { p.Properties = named() },
		func() { p.PatternProperties = named() },
		func() { p.Definitions = named() },
		func() { p.AdditionalProperties = orBool() },
		func() { p.AdditionalItems = orBool() },
		func() { p.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: sub()} },
		func() {
			p.Items = &apiextensionsv1.JSONSchemaPropsOrArray{JSONSchemas: []apiextensionsv1.JSONSchemaProps{*sub(), *sub()}}
		},
		func() { p.AllOf = []apiextensionsv1.JSONSchemaProps{*sub()} },
		func() { p.AnyOf = []apiextensionsv1.JSONSchemaProps{*sub(), *sub()} },
		func() { p.OneOf = []apiextensionsv1.JSONSchemaProps{} },
		func() { p.Not = sub() },
		func() {
			p.Dependencies = apiextensionsv1.JSONSchemaDependencies{"a": {Property: []string{"b"}}, "b": {Schema: sub()}}
		},
	} {
		if some() {
			set()
		}
	}
	return p
}

func (r schemas) definition() *apiextensionsv1.CustomResourceDefinition {
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.Name, d.Spec.Group, d.Spec.Scope = "as.b", "b", "Cluster"
	d.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "as", Singular: "a", Kind: "A", ListKind: "AList"}
	if r.IntN(2) == 0 {
		d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: "Webhook", Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: ptr.To("https://u")}, ConversionReviewVersions: []string{"v1"}}}
	}
	for n := range r.IntN(4) {
		v := apiextensionsv1.CustomResourceDefinitionVersion{Name: fmt.Sprint("v", n), Served: true, Storage: n == 0}
		switch {
		case r.IntN(3) > 0:
			v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: ptr.To(r.props(3))}
		case r.IntN(2) == 0:
			v.Schema = &apiextensionsv1.CustomResourceValidation{}
		}
		if n > 0 && r.IntN(2) == 0 {
			v.Schema = d.Spec.Versions[0].Schema.DeepCopy()
		}
		if r.IntN(2) == 0 {
			v.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
			v.AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "N", Type: "string", JSONPath: ".a"}}
		}
		d.Spec.Versions = append(d.Spec.Versions, v)
	}
	return d
}

// TestStoredAsByTheLibrary stores random definitions and reads them, as the library does.
func TestStoredAsByTheLibrary(t *testing.T) {
	passed := 0
	for seed := range uint64(600) {
		r := schemas{rand.New(rand.NewPCG(seed, 3)), seed%2 == 0}
		d := r.definition()
		before := d.DeepCopy()
		beta, err := toBeta(d)
		if err != nil {
			t.Fatal(err)
		}
		want, err := convertToBeta(d)
		if err != nil {
			t.Fatal(err)
		}
		stored := asJSON(t, want)
		if got := asJSON(t, beta); got != stored {
			t.Fatalf("%d: stored as\n%s\nnot\n%s", seed, got, stored)
		}
		if !reflect.DeepEqual(d, before) {
			t.Fatalf("%d: to store it changed it", seed)
		}
		if normal(d.Spec.Versions) {
			passed++
		}
		// What is stored may be of another writer, whose JSON is not normal.
		for _, text := range []string{stored, asJSON(t, betaOf(d))} {
			var one, other apiextensionsv1beta1.CustomResourceDefinition
			if err := json.Unmarshal([]byte(text), &one); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(text), &other); err != nil {
				t.Fatal(err)
			}
			got, err := fromBeta(&one)
			if err != nil {
				t.Fatal(err)
			}
			apiextensionsv1beta1.SetDefaults_CustomResourceDefinitionSpec(&other.Spec)
			want, err := convertFromBeta(&other)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%d: read as\n%s\nnot\n%s", seed, asJSON(t, got), asJSON(t, want))
			}
		}
	}
	if passed < 200 || passed > 500 {
		t.Errorf("%d of 600 schemas were passed", passed)
	}
}

// betaOf is a definition as another writer may store it: with a schema in each version.
func betaOf(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1beta1.CustomResourceDefinition {
	out := &apiextensionsv1beta1.CustomResourceDefinition{ObjectMeta: d.ObjectMeta}
	out.Spec.Group, out.Spec.Scope, out.Spec.Names.Plural, out.Spec.Names.Kind = d.Spec.Group, "Cluster", "as", "A"
	for n := range d.Spec.Versions {
		v := &d.Spec.Versions[n]
		out.Spec.Versions = append(out.Spec.Versions, apiextensionsv1beta1.CustomResourceDefinitionVersion{Name: v.Name, Served: true, Schema: betaSchema(v.Schema)})
	}
	return out
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// BenchmarkStored stores a definition of 500 fields and reads it.
func BenchmarkStored(b *testing.B) {
	p := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for n := range 500 {
		p.Properties[fmt.Sprint("f", n)] = apiextensionsv1.JSONSchemaProps{Type: "string", Description: "a field", Default: &apiextensionsv1.JSON{Raw: []byte(`"x"`)}}
	}
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &p}}}
	b.Run("as it is", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			beta, err := toBeta(d)
			if err == nil {
				_, err = fromBeta(beta)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by the library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			beta, err := convertToBeta(d)
			if err == nil {
				_, err = convertFromBeta(beta)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
