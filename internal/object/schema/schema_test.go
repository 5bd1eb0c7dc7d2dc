package schema

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

func compile(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := Compile(parse(t, text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func objectOf(t testing.TB, text string) map[string]any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCoerce(t *testing.T) {
	tests := []struct {
		name, schema, obj, want string
		unknown                 []string
	}{
		{"unknown fields", `{type: object, properties: {a: {type: object, properties: {b: {type: string}}}}}`,
			`{kind: A, a: {b: x, c: y}, d: 1, l: [1]}`, `{kind: A, a: {b: x}}`, []string{"a.c", "d", "l"}},
		{"in lists", `{type: object, properties: {l: {type: array, items: {type: object, properties: {a: {type: string}}}}}}`,
			`{l: [{a: x}, {b: y}]}`, `{l: [{a: x}, {}]}`, []string{"l[1].b"}},
		{"preserved", `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object, properties: {b: {type: string}}}}}`,
			`{x: 1, a: {b: x, c: y}}`, `{x: 1, a: {b: x}}`, []string{"a.c"}},
		{"preserved in lists", `{type: object, properties: {l: {type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object}}}}`,
			`{l: [{a: 1}]}`, `{l: [{a: 1}]}`, nil},
		{"maps", `{type: object, properties: {m: {type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}}}`,
			`{m: {x: {a: y, b: z}}}`, `{m: {x: {a: y}}}`, []string{"m.x.b"}},
		{"maps of anything", `{type: object, properties: {m: {type: object, additionalProperties: true}}}`,
			`{m: {x: {a: y}, z: 1}}`, `{m: {x: {}, z: 1}}`, []string{"m.x.a"}},
		{"nulls", `{type: object, properties: {a: {type: string}, b: {type: string, nullable: true}, c: {type: string, default: x}}}`,
			`{a: null, b: null, c: null}`, `{b: null, c: null}`, nil},
		{"metadata", `{type: object}`,
			`{metadata: {name: a, foo: b, labels: {a: b}, creationTimestamp: null}}`, `{metadata: {name: a, labels: {a: b}}}`, []string{"metadata.foo"}},
		{"embedded", `{type: object, properties: {e: {type: object, x-kubernetes-embedded-resource: true, properties: {a: {type: string}}}}}`,
			`{e: {apiVersion: v1, kind: A, metadata: {name: a, foo: b}, a: x, b: y}}`, `{e: {apiVersion: v1, kind: A, metadata: {name: a}, a: x}}`, []string{"e.b", "e.metadata.foo"}},
		{"no schema", ``, `{kind: A, spec: {}}`, `{kind: A}`, []string{"spec"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var p *props
			if test.schema != "" {
				p = parse(t, test.schema)
			}
			s, err := Compile(p, Options{})
			if err != nil {
				t.Fatal(err)
			}
			obj := objectOf(t, test.obj)
			unknown, err := s.Coerce(obj, CoerceOptions{ReportUnknown: true})
			if err != nil {
				t.Fatal(err)
			}
			if want := objectOf(t, test.want); !reflect.DeepEqual(obj, want) {
				t.Errorf("%v, want %v", obj, want)
			}
			if !slices.Equal(unknown, test.unknown) {
				t.Errorf("unknown %q, want %q", unknown, test.unknown)
			}
		})
	}
}

func TestCoerceInvalidMetadata(t *testing.T) {
	s := compile(t, `{type: object, properties: {e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`)
	for _, text := range []string{
		`{metadata: {name: 1}}`, `{metadata: x}`, `{kind: 1}`,
		`{e: {kind: 1, apiVersion: v1}}`, `{e: {kind: A, apiVersion: v1, metadata: {labels: x}}}`,
	} {
		if _, err := s.Coerce(objectOf(t, text), CoerceOptions{}); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	obj := objectOf(t, `{metadata: {name: a, generation: x}, e: {kind: 1, metadata: {name: b, labels: x}}}`)
	if _, err := s.Coerce(obj, CoerceOptions{DropInvalid: true, RepairGeneration: true}); err != nil {
		t.Fatal(err)
	}
	if want := objectOf(t, `{metadata: {name: a, generation: 1}, e: {metadata: {name: b}}}`); !reflect.DeepEqual(obj, want) {
		t.Errorf("%v, want %v", obj, want)
	}
}

func TestPreserveUnknownFields(t *testing.T) {
	s, err := Compile(parse(t, `{type: object, properties: {a: {type: string}}}`), Options{PreserveUnknownFields: true})
	if err != nil {
		t.Fatal(err)
	}
	obj := objectOf(t, `{a: x, b: {c: null}}`)
	if unknown, err := s.Coerce(obj, CoerceOptions{ReportUnknown: true}); err != nil || len(unknown) > 0 || len(obj) != 2 {
		t.Error(obj, unknown, err)
	}
}

func TestDefault(t *testing.T) {
	s := compile(t, `{type: object, properties: {
		a: {type: string, default: x},
		b: {type: object, default: {}, properties: {c: {type: integer, default: 1}}},
		l: {type: array, items: {type: object, properties: {d: {type: boolean, default: true}}}},
		m: {type: object, additionalProperties: {type: string, default: y}},
		q: {type: string, nullable: true, default: z}}}`)
	for _, test := range []struct{ obj, want string }{
		{`{}`, `{a: x, b: {c: 1}, q: z}`},
		{`{a: q, b: {c: 2}, q: null}`, `{a: q, b: {c: 2}, q: null}`},
		{`{a: null, l: [{}, {d: false}], m: {k: null}}`, `{a: x, b: {c: 1}, l: [{d: true}, {d: false}], m: {k: y}, q: z}`},
	} {
		obj := objectOf(t, test.obj)
		s.Default(obj)
		if want := objectOf(t, test.want); !reflect.DeepEqual(obj, want) {
			t.Errorf("%v, want %v", obj, want)
		}
	}
}

// TestDefaultsAreCopies checks that objects do not share their defaults.
func TestDefaultsAreCopies(t *testing.T) {
	s := compile(t, `{type: object, properties: {m: {type: object, default: {a: {b: c}}, x-kubernetes-preserve-unknown-fields: true}}}`)
	one, other := map[string]any{}, map[string]any{}
	for _, obj := range []map[string]any{one, other} {
		s.Default(obj)
	}
	one["m"].(map[string]any)["a"].(map[string]any)["b"] = "changed"
	if reflect.DeepEqual(one, other) {
		t.Error("a default is shared")
	}
}

func TestValidateCreate(t *testing.T) {
	tests := []struct {
		name, schema, value string
		want                []string // "field: reason"
	}{
		{"fits", `{type: string}`, `a`, nil},
		{"type", `{type: string}`, `1`, []string{"v: FieldValueTypeInvalid"}},
		{"null", `{type: string}`, `null`, []string{"v: FieldValueTypeInvalid"}},
		{"nullable", `{type: string, nullable: true}`, `null`, nil},
		{"whole float", `{type: integer}`, `1.0`, nil},
		{"int32", `{type: integer, format: int32}`, `3000000000`, []string{"<nil>: FieldValueInvalid"}},
		{"maximum", `{type: integer, maximum: 3}`, `4`, []string{"v: FieldValueInvalid"}},
		{"enum", `{type: string, enum: [a, b]}`, `c`, []string{"v: FieldValueNotSupported"}},
		{"enum of anything", `{x-kubernetes-preserve-unknown-fields: true, enum: [1, {a: b}]}`, `{a: b}`, nil},
		{"pattern", `{type: string, pattern: "^a+$"}`, `b`, []string{"v: FieldValueInvalid"}},
		{"length", `{type: string, maxLength: 2}`, `äöü`, []string{"v: FieldValueTooLong"}},
		{"length in runes", `{type: string, maxLength: 3}`, `äöü`, nil},
		{"format", `{type: string, format: date-time}`, `yesterday`, []string{"v: FieldValueTypeInvalid"}},
		{"unknown format", `{type: string, format: something}`, `yesterday`, nil},
		{"required", `{type: object, required: [a]}`, `{}`, []string{"v.a: FieldValueRequired"}},
		{"items", `{type: array, maxItems: 1, items: {type: string}}`, `[a, 1]`, []string{"v: FieldValueTooMany", "v[1]: FieldValueTypeInvalid"}},
		{"properties", `{type: object, maxProperties: 1, additionalProperties: {type: integer}}`, `{a: 1, b.c: x}`, []string{"v.b.c: FieldValueTypeInvalid", "v: FieldValueTooMany"}},
		{"int or string", `{x-kubernetes-int-or-string: true}`, `1.5`, []string{"v: FieldValueTypeInvalid"}},
		{"anyOf", `{type: integer, anyOf: [{minimum: 5}, {maximum: 1}]}`, `3`, []string{"<nil>: FieldValueInvalid", "v: FieldValueInvalid"}},
		{"oneOf", `{type: integer, oneOf: [{minimum: 1}, {minimum: 2}]}`, `3`, []string{"<nil>: FieldValueInvalid"}},
		{"not", `{type: integer, not: {minimum: 1}}`, `3`, []string{"<nil>: FieldValueInvalid"}},
		{"set", `{type: array, x-kubernetes-list-type: set, items: {type: string}}`, `[a, b, a, a]`, []string{"v[2]: FieldValueDuplicate"}},
		{"map", `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}}`,
			`[{k: a}, {k: a}]`, []string{"v[1]: FieldValueDuplicate"}},
		{"map by two keys", `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, properties: {k: {type: string}, l: {type: integer}}}}`,
			`[{k: a, l: 1}, {k: a, l: 2}, {l: 1, k: a}]`, []string{"v[2]: FieldValueDuplicate"}},
		{"embedded", `{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}`,
			`{apiVersion: a/b/c, metadata: {name: a/b}}`, []string{"v.apiVersion: FieldValueInvalid", "v.kind: FieldValueRequired", "v.metadata.name: FieldValueInvalid"}},
		{"rule", `{type: integer, x-kubernetes-validations: [{rule: self > 3, message: too small}]}`, `2`, []string{"v: FieldValueInvalid"}},
		{"rule with a reason and a path", `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.a > 3, reason: FieldValueForbidden, fieldPath: .a}]}`,
			`{a: 1}`, []string{"v.a: FieldValueForbidden"}},
		{"transition rules wait for an update", `{type: integer, x-kubernetes-validations: [{rule: self > oldSelf}]}`, `2`, nil},
		{"rules wait for types", `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.a > 3}]}`,
			`{a: x}`, []string{"<nil>: FieldValueInvalid", "v.a: FieldValueTypeInvalid"}},
		{"namespace is a name", `{type: object, properties: {namespace: {type: string}}, x-kubernetes-validations: [{rule: self.namespace == 'a'}]}`, `{namespace: a}`, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := compile(t, `{type: object, properties: {v: `+test.schema+`}}`)
			v := s.ValidateCreate(context.Background(), objectOf(t, `{v: `+test.value+`}`))
			if got := reasons(v); !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q\n%v", got, test.want, v.Errors.ToAggregate())
			}
		})
	}
}

func reasons(v Verdict) []string {
	var out []string
	for _, err := range v.Errors {
		out = append(out, fmt.Sprintf("%s: %s", err.Field, string(err.Type)))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestMessages(t *testing.T) {
	s := compile(t, `{type: object, properties: {spec: {type: object, required: [q], properties: {
		q: {type: integer, minimum: 1},
		s: {type: string, enum: [a, b]}}}}}`)
	v := s.ValidateCreate(context.Background(), objectOf(t, `{spec: {q: 0, s: c}}`))
	want := []string{
		`spec.q: Invalid value: 0: spec.q in body should be greater than or equal to 1`,
		`spec.s: Unsupported value: "c": supported values: "a", "b"`,
	}
	var got []string
	for _, err := range v.Errors {
		got = append(got, err.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestRuleMessages(t *testing.T) {
	s := compile(t, `{type: object, properties: {q: {type: integer, x-kubernetes-validations: [
		{rule: self > 1, message: plain},
		{rule: self > 2, messageExpression: "'more than ' + string(self)"},
		{rule: self > 3, messageExpression: "string(1/0)", message: plan B},
		{rule: self > 4}]}}}`)
	v := s.ValidateCreate(context.Background(), objectOf(t, `{q: 0}`))
	want := []string{"plain", "more than 0", "plan B", "failed rule: self > 4"}
	if len(v.Errors) != len(want) {
		t.Fatal(v.Errors)
	}
	for i, err := range v.Errors {
		if err.Detail != want[i] {
			t.Errorf("%q, want %q", err.Detail, want[i])
		}
	}
}

// Items of what is no list have no type, so their rules cannot be compiled: neither those of items of an object, which a
// list from before a change of the definition may still have, nor those of fields below. A field whose name expressions
// cannot have has a type of its own.
func TestRulesWithoutType(t *testing.T) {
	s := compile(t, `{type: object, properties: {o: {type: object, items: {type: object,
		properties: {n: {type: integer, x-kubernetes-validations: [{rule: self > 9}]}, "né": {type: integer, x-kubernetes-validations: [{rule: self > 9}]}},
		x-kubernetes-validations: [{rule: self.n > 0}]}}}}`)
	old := `{o: [{n: 1, "né": 1}]}`
	v := s.ValidateUpdate(context.Background(), objectOf(t, `{metadata: {}, o: [{n: 1, "né": 2}]}`), objectOf(t, old))
	if len(v.Errors) == 0 || v.Errors[0].Field != "o" {
		t.Errorf("a list that has changed: %v", v.Errors)
	}
	v = s.ValidateUpdate(context.Background(), objectOf(t, `{metadata: {}, o: [{n: 1, "né": 1}]}`), objectOf(t, old))
	want := `o[0]: Invalid value: "object": rule compiler initialization error: failed to convert to declType for CEL validation rules`
	if len(v.Errors) != 1 || v.Errors[0].Error() != want {
		t.Errorf("%v, want %s", v.Errors, want)
	}
	if len(v.Warnings) != 1 {
		t.Errorf("the rule of the field: %q", v.Warnings)
	}
}

// TestRatcheting checks what may stay invalid in an update.
func TestRatcheting(t *testing.T) {
	s := compile(t, `{type: object, properties: {
		a: {type: string, maxLength: 1},
		o: {type: object, properties: {b: {type: integer, maximum: 1}, c: {type: integer}}},
		m: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, q: {type: integer, maximum: 1}}}},
		l: {type: array, items: {type: integer, maximum: 1}},
		r: {type: object, properties: {x: {type: integer}, z: {type: integer}}, x-kubernetes-validations: [{rule: self.x == 1}]},
		s: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}`)
	for _, test := range []struct {
		name, old, obj string
		want           []string
		warnings       int
	}{
		{"unchanged", `{a: abc}`, `{a: abc}`, nil, 0},
		{"changed", `{a: abc}`, `{a: abcd}`, []string{"<nil>: FieldValueInvalid", "a: FieldValueTooLong"}, 0},
		{"beside a change", `{o: {b: 5}}`, `{o: {b: 5, c: 1}}`, nil, 0},
		{"items by key", `{m: [{k: a, q: 5}, {k: b}]}`, `{m: [{k: c}, {k: a, q: 5}]}`, nil, 0},
		{"items of atomic lists", `{l: [5]}`, `{l: [5, 1]}`, []string{"l[0]: FieldValueInvalid"}, 0},
		{"rules", `{r: {x: 2}}`, `{r: {x: 2}, a: b}`, nil, 1},
		{"rules of what changed", `{r: {x: 2}}`, `{r: {x: 2, z: 1}}`, []string{"r: FieldValueInvalid"}, 0},
		{"sets that were wrong", `{s: [a, a]}`, `{s: [b, b]}`, nil, 0},
		{"sets", `{s: [a]}`, `{s: [b, b]}`, []string{"s[1]: FieldValueDuplicate"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := s.ValidateUpdate(context.Background(), objectOf(t, test.obj), objectOf(t, test.old))
			if got := reasons(v); !slices.Equal(got, test.want) || len(v.Warnings) != test.warnings {
				t.Errorf("%q, want %q; warnings %q", got, test.want, v.Warnings)
			}
		})
	}
}

// Each update is reported once, with the time of its comparisons, if there were any.
func TestRatchetingIsTimed(t *testing.T) {
	var told []time.Duration
	var now time.Time
	cache := NewCache(Timing{Ratcheting: func(took time.Duration) { told = append(told, took) },
		Now: func() time.Time { now = now.Add(time.Second); return now }})
	s, err := Compile(parse(t, `{type: object, properties: {
		a: {type: integer, maximum: 1}, b: {type: integer, x-kubernetes-validations: [{rule: self < 2}]},
		status: {type: object, properties: {c: {type: integer, maximum: 1}}}}}`), Options{Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	update := func(obj, old string) Verdict {
		return s.ValidateUpdate(t.Context(), objectOf(t, obj), objectOf(t, old))
	}
	for _, c := range []struct {
		name     string
		validate func() Verdict
		errors   int
		told     []time.Duration
	}{
		{"create", func() Verdict { return s.ValidateCreate(t.Context(), objectOf(t, `{a: 1}`)) }, 0, nil},
		{"nothing wrong", func() Verdict { return update(`{a: 1, b: 1}`, `{a: 0}`) }, 0, []time.Duration{0}},
		{"wrong as before", func() Verdict { return update(`{a: 5}`, `{a: 5}`) }, 0, []time.Duration{time.Second}},
		{"two wrong as before", func() Verdict { return update(`{a: 5, b: 5}`, `{a: 5, b: 5}`) }, 0, []time.Duration{2 * time.Second}},
		{"newly wrong", func() Verdict { return update(`{a: 6}`, `{a: 5}`) }, 1, []time.Duration{time.Second}},
		{"status", func() Verdict {
			return s.ValidateStatusUpdate(t.Context(), objectOf(t, `{status: {c: 5}}`), objectOf(t, `{status: {c: 5}}`))
		}, 0, []time.Duration{time.Second}},
	} {
		told = nil
		if v := c.validate(); len(v.Errors) != c.errors || !slices.Equal(told, c.told) {
			t.Errorf("%s: told %v, want %v; %v", c.name, told, c.told, v.Errors)
		}
	}
}

func TestTransitionRules(t *testing.T) {
	s := compile(t, `{type: object, properties: {
		q: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]},
		o: {type: integer, x-kubernetes-validations: [{rule: "oldSelf.hasValue() || self == 1", optionalOldSelf: true}]},
		m: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, v: {type: integer}}, x-kubernetes-validations: [{rule: self.v == oldSelf.v}]}}}}`)
	for _, test := range []struct {
		old, obj string
		want     []string
	}{
		{`{q: 1}`, `{q: 2}`, nil},
		{`{q: 2}`, `{q: 1}`, []string{"q: FieldValueInvalid"}},
		{`{}`, `{q: 1}`, nil},
		{`{}`, `{o: 2}`, []string{"o: FieldValueInvalid"}},
		{`{o: 3}`, `{o: 2}`, nil},
		{`{m: [{k: a, v: 1}, {k: b, v: 1}]}`, `{m: [{k: b, v: 1}, {k: c, v: 5}, {k: a, v: 2}]}`, []string{"m[2]: FieldValueInvalid"}},
	} {
		v := s.ValidateUpdate(context.Background(), objectOf(t, test.obj), objectOf(t, test.old))
		if got := reasons(v); !slices.Equal(got, test.want) {
			t.Errorf("%s to %s: %q, want %q", test.old, test.obj, got, test.want)
		}
	}
}

func TestValidateStatusUpdate(t *testing.T) {
	s := compile(t, `{type: object, required: [spec], properties: {spec: {type: string}, status: {type: object, properties: {q: {type: integer, maximum: 1}}}}}`)
	v := s.ValidateStatusUpdate(context.Background(), objectOf(t, `{spec: 1, status: {q: 5}}`), objectOf(t, `{spec: 1}`))
	if len(v.Errors) != 1 || v.Errors[0].Error() != "status.q: Invalid value: 5: q in body should be less than or equal to 1" {
		t.Error(v.Errors)
	}
}

// TestSharing checks that equal parts are compiled once.
func TestSharing(t *testing.T) {
	cache := NewCache(Timing{})
	text := `{type: object, properties: {
		a: {type: string, pattern: "^a", x-kubernetes-validations: [{rule: self != ''}]},
		b: {type: string, pattern: "^a", x-kubernetes-validations: [{rule: self != ''}]}}}`
	var all []*Schema
	for range 3 {
		s, err := Compile(parse(t, text), Options{Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	a, b := all[0].root.property("a"), all[0].root.property("b")
	if a != b {
		t.Error("equal schemas are not the same")
	}
	other := all[1].root.property("a")
	if other.checks.pattern != a.checks.pattern || other.rules[0].program != a.rules[0].program {
		t.Error("patterns or programs are not shared")
	}
	if a.rules[0].program.Program != nil || a.checks.pattern.re != nil {
		t.Error("compiled before it is used")
	}
	all[0].ValidateCreate(context.Background(), objectOf(t, `{a: ab}`))
	if other.rules[0].program.Program == nil || other.checks.pattern.re == nil {
		t.Error("not compiled though it was used")
	}
}

func TestUnsupported(t *testing.T) {
	for _, text := range []string{
		`{type: object, properties: {a: {type: array, items: [{type: string}]}}}`,
	} {
		if _, err := Compile(parse(t, text), Options{}); err == nil || !strings.Contains(err.Error(), "items") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
