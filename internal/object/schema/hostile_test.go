package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// These tests finish only if schemas and objects built to be expensive are not.

// many returns a list of n values.
func many(n int, v func(i int) any) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = v(i)
	}
	return out
}

func TestExpensiveRule(t *testing.T) {
	if underRace {
		t.Skip("nothing in it is concurrent")
	}
	s := compile(t, `{type: object, properties: {l: {type: array, items: {type: integer}, x-kubernetes-validations: [
		{rule: "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"}]}}}`)
	obj := map[string]any{"l": many(10_000, func(i int) any { return int64(i) })}
	v := s.ValidateCreate(context.Background(), obj)
	if len(v.Errors) != 1 || !strings.Contains(v.Errors[0].Detail, "no further validation rules will be run") {
		t.Error(v.Errors)
	}
}

func TestManyRules(t *testing.T) {
	if underRace {
		t.Skip("nothing in it is concurrent")
	}
	s := compile(t, `{type: object, properties: {l: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self.matches('^a*$')"}]}}}}`)
	text := strings.Repeat("a", 100_000)
	obj := map[string]any{"l": many(1000, func(int) any { return text })}
	v := s.ValidateCreate(context.Background(), obj)
	if len(v.Errors) != 1 || !strings.Contains(v.Errors[0].Detail, "cost") {
		t.Error(v.Errors)
	}
}

func TestRulesEndWithTheRequest(t *testing.T) {
	s := compile(t, `{type: object, properties: {l: {type: array, items: {type: integer, x-kubernetes-validations: [{rule: self >= 0}]}}}}`)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("gone"))
	v := s.ValidateCreate(ctx, map[string]any{"l": many(10, func(int) any { return int64(1) })})
	if len(v.Errors) != 1 {
		t.Error(v.Errors)
	}
}

func TestManyErrors(t *testing.T) {
	const n = 200_000
	for name, text := range map[string]string{
		"checks":   `{type: array, items: {type: string}}`,
		"rules":    `{type: array, items: {type: integer, x-kubernetes-validations: [{rule: "false"}]}}`,
		"sets":     `{type: array, x-kubernetes-list-type: set, items: {type: integer}}`,
		"long":     `{type: array, items: {type: integer, enum: ["` + strings.Repeat("x", 10_000) + `"]}}`,
		"anyOf":    `{type: array, items: {type: integer, anyOf: [{minimum: 1000000}, {minimum: 2000000}]}}`,
		"resource": `{type: array, items: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := compile(t, `{type: object, properties: {l: `+text+`}}`)
			obj := map[string]any{"l": many(n, func(i int) any {
				if name == "resource" {
					return map[string]any{}
				}
				return int64(i / 2)
			})}
			v := s.ValidateCreate(context.Background(), obj)
			if len(v.Errors) == 0 || len(v.Errors) > 2*maxErrors {
				t.Error(len(v.Errors), "errors")
			}
			old := map[string]any{"l": append([]any{"changed"}, obj["l"].([]any)[1:]...)}
			if name == "sets" {
				old = map[string]any{} // invalid old values may stay
			}
			if v := s.ValidateUpdate(context.Background(), obj, old); len(v.Errors) == 0 || len(v.Errors) > 2*maxErrors {
				t.Error(len(v.Errors), "errors of an update")
			}
		})
	}
}

func TestUniqueItems(t *testing.T) {
	const n = 100_000
	for _, text := range []string{
		`{type: array, uniqueItems: true, items: {type: integer}}`,
		`{type: array, x-kubernetes-list-type: set, items: {type: integer}}`,
		`{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: integer}}}}`,
	} {
		s := compile(t, `{type: object, properties: {l: `+text+`}}`)
		list := many(n, func(i int) any {
			if strings.Contains(text, "map-keys") {
				return map[string]any{"k": int64(i)}
			}
			return int64(i)
		})
		if v := s.ValidateCreate(context.Background(), map[string]any{"l": list}); len(v.Errors) > 0 {
			t.Error(v.Errors)
		}
		list[n-1] = list[0]
		if v := s.ValidateCreate(context.Background(), map[string]any{"l": list}); len(v.Errors) != 1 {
			t.Error(v.Errors)
		}
	}
}

func TestManyDefaults(t *testing.T) {
	var fields []string
	for i := range 1000 {
		fields = append(fields, fmt.Sprintf("f%d: {type: string, default: x}", i))
	}
	s := compile(t, `{type: object, properties: {l: {type: array, items: {type: object, properties: {`+strings.Join(fields, ", ")+`}}}}}`)
	if _, err := s.Coerce(map[string]any{"l": many(100, func(int) any { return map[string]any{} })}, CoerceOptions{}); err != nil {
		t.Error(err)
	}
	_, err := s.Coerce(map[string]any{"l": many(100_000, func(int) any { return map[string]any{} })}, CoerceOptions{})
	if !errors.Is(err, ErrTooManyDefaults) {
		t.Error(err)
	}
}

func TestCostlyPatterns(t *testing.T) {
	if underRace {
		t.Skip("nothing in it is concurrent")
	}
	long := strings.Repeat("a", 1<<20)
	for _, pattern := range []string{
		`^((((a{0,9}){0,9}){0,9}){0,9})*$`,
		`(a{0,1000}){1000}`,
		strings.Repeat("(a?", 500) + strings.Repeat(")", 500),
		strings.Repeat("a?", 50_000) + "$",
	} {
		s, err := Compile(&props{Type: "object", Properties: map[string]props{"s": {Type: "string", Pattern: pattern}}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.ValidateCreate(context.Background(), map[string]any{"s": long})
	}
}

func TestDeepSchema(t *testing.T) {
	const depth = 5000
	p := &props{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"x"`)}, XValidations: apiextensionsv1.ValidationRules{{Rule: "self != ''"}}}
	var value any = "a"
	for i := range depth {
		next := &props{Type: "object", Properties: map[string]props{"a": *p}}
		value = map[string]any{"a": value}
		if i%2 == 0 {
			next = &props{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: p}}
			value = []any{value.(map[string]any)["a"]}
		}
		p = next
	}
	s, err := Compile(&props{Type: "object", Properties: map[string]props{"a": *p}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	obj := map[string]any{"a": value}
	if _, err := s.Coerce(obj, CoerceOptions{ReportUnknown: true}); err != nil {
		t.Fatal(err)
	}
	s.Default(obj)
	if v := s.ValidateUpdate(context.Background(), obj, obj); len(v.Errors) > 0 {
		t.Error(v.Errors)
	}
	if _, err := s.Type().FromUnstructured(obj); err != nil {
		t.Error(err)
	}
}

func TestDeepObject(t *testing.T) {
	s := compile(t, `{type: object, properties: {p: {x-kubernetes-preserve-unknown-fields: true}, l: {type: array}, m: {type: object, additionalProperties: true}}}`)
	var value any = "a"
	for range 10_000 {
		value = []any{value}
	}
	obj := map[string]any{"p": value, "l": value, "m": map[string]any{"x": value}, "unknown": value}
	if _, err := s.Coerce(obj, CoerceOptions{ReportUnknown: true}); err != nil {
		t.Fatal(err)
	}
	s.ValidateUpdate(context.Background(), obj, obj)
}

func TestWideObject(t *testing.T) {
	s := compile(t, `{type: object, properties: {m: {type: object, additionalProperties: {type: string, maxLength: 3}}, o: {type: object}}}`)
	m, o := map[string]any{}, map[string]any{}
	for i := range 100_000 {
		m[fmt.Sprint("f", i)] = "abc"
		o[fmt.Sprint("f", i)] = "abc"
	}
	obj := map[string]any{"m": m, "o": o}
	unknown, err := s.Coerce(obj, CoerceOptions{ReportUnknown: true})
	if err != nil || len(unknown) != 100_000 {
		t.Error(len(unknown), err)
	}
	if v := s.ValidateCreate(context.Background(), obj); len(v.Errors) > 0 {
		t.Error(v.Errors)
	}
}

// TestNestedAlternatives checks that nested alternatives, none of which match, do not multiply the work.
func TestNestedAlternatives(t *testing.T) {
	alternative := props{Minimum: ptr.To(10.0)}
	for range 300 {
		alternative = props{AnyOf: []props{{Minimum: ptr.To(10.0)}, alternative}}
	}
	alternative.Type = "integer"
	s, err := Compile(&props{Type: "object", Properties: map[string]props{"n": alternative}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v := s.ValidateCreate(context.Background(), map[string]any{"n": int64(1)}); len(v.Errors) == 0 {
		t.Error("no errors")
	}
}

func TestWideSchema(t *testing.T) {
	p := &props{Type: "object", Properties: map[string]props{}}
	for i := range 20_000 {
		p.Properties[fmt.Sprint("f", i)] = props{Type: "object", XEmbeddedResource: i%2 == 0, XPreserveUnknownFields: ptr.To(true), Default: &apiextensionsv1.JSON{Raw: []byte(`{"apiVersion": "v1", "kind": "A", "a": {}}`)}}
	}
	if _, err := Compile(p, Options{}); err != nil {
		t.Fatal(err)
	}
}
