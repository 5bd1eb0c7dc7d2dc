package schema

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// parse parses a schema from YAML.
func parse(t testing.TB, text string) *props {
	t.Helper()
	p := new(props)
	if err := yaml.Unmarshal([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLookUp(t *testing.T) {
	s := parse(t, `{type: object, properties: {spec: {type: object, properties: {a: {type: string}, "x.y": {type: integer}, m: {type: object, additionalProperties: {type: string}}, l: {type: array}}}}}`)
	tests := []struct {
		path     string
		brackets bool
		want     string // a type; empty: an error
	}{
		{".spec.a", false, "string"},
		{".spec['a']", true, "string"},
		{".spec['x.y']", true, "integer"},
		{".spec['a']", false, ""},
		{".spec.m.any", false, "string"},
		{".spec.b", false, ""},
		{".spec.l[0]", true, ""},
		{"spec.a", false, ""},
		{".spec.", false, ""},
		{".spec['a", true, ""},
	}
	for _, test := range tests {
		_, found, err := LookUp(test.path, s, test.brackets)
		var got string
		if err == nil {
			got = found.Type
		}
		if got != test.want {
			t.Errorf("%s: %q (%v), want %q", test.path, got, err, test.want)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, test := range []struct {
		of, format string
		want       bool
	}{
		{"string", "date-time", true}, {"string", "k8s-short-name", true}, {"string", "int32", false},
		{"integer", "int64", true}, {"number", "int64", false}, {"object", "uri", false}, {"", "uri", true},
	} {
		if got := IsFormat(test.of, test.format); got != test.want {
			t.Errorf("%s %s: %v", test.of, test.format, got)
		}
	}
}
