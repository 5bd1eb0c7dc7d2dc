package jsonobject

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

func TestCut(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{`{"a":1}`, `{"a":1}`},
		{` { "m" : { "f" : [ {"x":"\"}"} ] , "n" : 1 } } `, ` { "m" : { "f" : null , "n" : 1 } } `},
		{`{"v":[{"n":"a","s":{"s":{}}},{"s":[1,"]"]},{},null,3,"s"],"s":{"k":1}}`, `{"v":[{"n":"a","s":null},{"s":null},{},null,3,"s"],"s":{"k":1}}`},
		{`{"m":{"f":1,"f":"\\"},"v":{"*":{"s":2}}}`, `{"m":{"f":null,"f":null},"v":{"*":{"s":2}}}`},
		{`{"m":{"f":-1.5e3},"v":[]}`, `{"m":{"f":null},"v":[]}`},
		{`{"m":{"f":1`, `{"m":{"f":1`}, {`{"m"`, `{"m"`}, {`{"m":`, `{"m":`}, {`{"m":{"f":"`, `{"m":{"f":"`}, {``, ``}, {`[`, `[`}, {`"`, `"`}, {`{]`, `{]`},
	} {
		if got := Cut([]byte(c.doc), "m.f", "v.*.s"); string(got) != c.want {
			t.Errorf("%s is %s, not %s", c.doc, got, c.want)
		}
	}
}

func TestFind(t *testing.T) {
	doc := []byte(`{"a":{"b":"x}","l":{ "k":"v" } , "n":17},"l":[1]}`)
	for _, c := range []struct {
		path []string
		want string
	}{
		{[]string{"a", "l"}, `{ "k":"v" }`}, {[]string{"a", "n"}, `17`}, {[]string{"l"}, `[1]`}, {nil, string(doc)},
		{[]string{"a", "x"}, ``}, {[]string{"l", "l"}, ``}, {[]string{"a", "b", "c"}, ``}, {[]string{"l", ""}, ``},
	} {
		if got := Find(doc, c.path...); string(got) != c.want {
			t.Errorf("%v is %q, not %q", c.path, got, c.want)
		}
	}
}

// FuzzCut checks that Cut equals cutting the decoded object.
func FuzzCut(f *testing.F) {
	for _, d := range documents[:len(documents)-4] {
		f.Add([]byte(d))
	}
	f.Add([]byte(`{"a":{"b":[1,{"c":"\\\""}]},"c":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, found := Cut(data, "a", "b.*.c"), Find(data, "b", "c")
		want, dup, ok := decode(data)
		if !ok || dup || bytes.ContainsRune(data, '\\') {
			return
		}
		b, _ := want["b"].(map[string]any)
		var v any
		if found != nil && (json.Unmarshal(found, &v) != nil || b == nil) {
			t.Errorf("found %q in %q", found, data)
		}
		if _, there := want["a"]; there {
			want["a"] = nil
		}
		list, _ := want["b"].([]any)
		for _, item := range list {
			if m, _ := item.(map[string]any); m != nil {
				if _, there := m["c"]; there {
					m["c"] = nil
				}
			}
		}
		got, _, ok := decode(out)
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is cut to %q", data, out)
		}
	})
}

func TestWithout(t *testing.T) {
	for doc, want := range map[string]string{
		`{"m":{"f":1}}`:                                       `{"m":{}}`,
		`{"m":{"f":1,"g":2}}`:                                 `{"m":{"g":2}}`,
		`{"m":{"e":0 , "f":[{"f":1}] }}`:                      `{"m":{"e":0 }}`,
		`{"m":{"e":0,"f":1,"g":2,"f":3,"f":4}}`:               `{"m":{"e":0,"g":2}}`,
		`{"m":{"\u0066":1},"l":[{"f":1,"g":1},{"f":2},3,{}]}`: `{"m":{},"l":[{"g":1},{},3,{}]}`,
		`{"m":{"f":1`:                                         `{"m":{"f":1`, `not: json`: `not: json`, `{}`: `{}`, ``: ``,
	} {
		if got := Without([]byte(doc), "m.f", "l.*.f"); string(got) != want {
			t.Errorf("%s is %s, not %s", doc, got, want)
		}
	}
}
