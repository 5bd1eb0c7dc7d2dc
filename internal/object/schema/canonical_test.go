package schema

import (
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

const canonicalSchema = `{type: object, properties: {metadata: {type: object}, spec: {type: object, properties: {
	a: {type: string, default: x}, b: {type: integer, nullable: true}, c: {type: object, default: {}, properties: {d: {type: boolean, default: true}}},
	l: {type: array, items: {type: object, properties: {o: {type: string}, z: {type: number, default: 1.5}}}},
	m: {type: object, additionalProperties: {type: object, properties: {k: {type: string, default: v}}}},
	p: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {q: {type: object, properties: {r: {type: string}}}}},
	t: {type: object, additionalProperties: true}, u: {type: array, items: {type: string, default: e}}}}}}`

const canonicalMeta = `{"creationTimestamp":"2020-01-02T03:04:05Z","generation":1,"labels":{"a":"b"},"managedFields":[{"apiVersion":"e/v1","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}},"manager":"m","operation":"Update","time":"2020-01-02T03:04:05Z"}],"name":"n","uid":"u"}`

// canonicalCase returns an object with a spec.
func canonicalCase(spec string) string {
	return `{"apiVersion":"e/v1","kind":"A","metadata":` + canonicalMeta + `,"spec":` + spec + "}\n"
}

func TestCanonical(t *testing.T) {
	s := compile(t, canonicalSchema)
	for _, c := range []struct {
		doc  string
		want bool
	}{
		{canonicalCase(`{"a":"x","b":null,"c":{"d":false}}`), true},
		{canonicalCase(`{"a":"x","c":{"d":false},"l":[{"o":"","z":2}],"m":{"x":{"k":""}},"p":{"q":{"r":"s"},"w":{"x":[1,{}]}},"t":{"x":1,"y":{}},"u":["a"]}`), true},
		{canonicalCase(`{"c":{"d":false}}`), false},                          // a default
		{canonicalCase(`{"a":"x","c":{}}`), false},                           // a default within
		{canonicalCase(`{"a":"x"}`), false},                                  // after the last field
		{canonicalCase(`{"a":null,"c":{"d":true}}`), false},                  // null
		{canonicalCase(`{"a":"x","c":{"d":true},"e":1}`), false},             // unknown
		{canonicalCase(`{"c":{"d":true},"a":"x"}`), false},                   // order
		{canonicalCase(`{"a":"x","a":"x","c":{"d":true}}`), false},           // duplicate
		{canonicalCase(`{"a":"x","b":1.0,"c":{"d":true}}`), false},           // Marshal writes 1
		{canonicalCase(`{"a":"x","c":{"d":true},"l":[{}]}`), false},          // a default in a list
		{canonicalCase(`{"a":"x","c":{"d":true},"m":{"x":{}}}`), false},      // a default in a map
		{canonicalCase(`{"a":"x","c":{"d":true},"p":{"q":{"s":1}}}`), false}, // unknown again
		{canonicalCase(`{"a":"x","c":{"d":true},"t":{"x":{"y":1}}}`), false}, // maps of anything keep no fields of objects
		{canonicalCase(`{"a":"x","c":{"d":true},"u":[null]}`), false},        // an item's default
		{strings.Replace(canonicalCase(`{"a":"x","c":{"d":true}}`), `"generation":1,`, ``, 1), false},
		{strings.Replace(canonicalCase(`{"a":"x","c":{"d":true}}`), `"uid"`, `"resourceVersion":"1","uid"`, 1), false},
		{strings.Replace(canonicalCase(`{"a":"x","c":{"d":true}}`), `"e/v1"`, `"e/v2"`, 1), false},
		{strings.Replace(canonicalCase(`{"a":"x","c":{"d":true}}`), `"labels":{"a":"b"}`, `"labels":{}`, 1), false},
		{canonicalCase(`{"a":"x","c":{"d":true}}`) + "{}", false}, {``, false}, {`{}`, false}, {`null`, false},
	} {
		if got := checkCanonical(t, s, []byte(c.doc)); got != c.want {
			t.Errorf("%s: %v", c.doc, got)
		}
	}
}

// checkCanonical checks that decoding a canonical document and inserting the resourceVersion give the same result.
func checkCanonical(t *testing.T, s *Schema, doc []byte) bool {
	t.Helper()
	at, ok := s.Canonical(doc, "e/v1")
	if !ok {
		return false
	}
	obj, err := jsonobject.Unmarshal(doc)
	if err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	if _, err := s.Coerce(obj, CoerceOptions{DropInvalid: true, RepairGeneration: true}); err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	s.Default(obj)
	obj["metadata"].(map[string]any)["resourceVersion"] = "7"
	got, err := jsonobject.Unmarshal([]byte(string(doc[:at]) + `"resourceVersion":"7",` + string(doc[at:])))
	if err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	want, err := jsonobject.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if have, err := jsonobject.Marshal(got); err != nil || string(have) != string(want) {
		t.Errorf("%q is decoded as %s", doc, want)
	}
	return true
}

func FuzzCanonical(f *testing.F) {
	f.Add(canonicalCase(`{"a":"x","c":{"d":false},"l":[{"o":"","z":2}],"m":{"x":{"k":""}},"p":{"q":{"r":"s"},"w":{"x":[1,{}]}},"t":{"x":1,"y":{}},"u":["a"]}`))
	f.Add(canonicalCase(`{"a":"x","b":null,"c":{"d":true}}`))
	s := compile(f, canonicalSchema)
	f.Fuzz(func(t *testing.T, doc string) { checkCanonical(t, s, []byte(doc)) })
}
