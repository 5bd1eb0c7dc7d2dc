package jsonobject

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAppendOnly(t *testing.T) {
	const doc = `{ "a":{"b":1,"c":[{"d":"x","e":2},{"e":3},4]},"f":null, "g" : "}" ,"h":[[{"i":1,"j":2}]],"k":{}}`
	for paths, want := range map[string]string{
		"a.b":         `{"a":{"b":1}}`,
		"g,a.c.d":     `{"a":{"c":[{"d":"x"},{},4]},"g":"}"}`,
		"a,a.b":       `{"a":{"b":1,"c":[{"d":"x","e":2},{"e":3},4]}}`,
		"a.b,a":       `{"a":{"b":1,"c":[{"d":"x","e":2},{"e":3},4]}}`,
		"f.x,h.j,k.x": `{"f":null,"h":[[{"j":2}]],"k":{}}`,
		"none":        `{}`,
	} {
		f := Fields{}
		for _, p := range strings.Split(paths, ",") {
			f.Add(strings.Split(p, ".")...)
		}
		got, ok := AppendOnly([]byte("before "), []byte(doc), f)
		if !ok || string(got) != "before "+want || !json.Valid(got[7:]) {
			t.Errorf("%s: %s, %v", paths, got, ok)
		}
	}
	if _, ok := AppendOnly(nil, []byte(`{"a":`), Fields{"a": {}}); ok {
		t.Error("half a document was taken")
	}
}

func FuzzAppendOnly(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1},"c":[{"b":"\u0061"}]}`))
	f.Add([]byte(`[1,{"c":{"b":[]}}]`))
	fields := Fields{}
	fields.Add("a", "b")
	fields.Add("c", "b")
	fields.Add("d")
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, ok := AppendOnly(nil, data, fields); ok && json.Valid(data) && !json.Valid(got) {
			t.Errorf("%q is cut to %q", data, got)
		}
	})
}
