package jsonobject

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

var merges = [][2]string{
	{`{"a":1,"b":{"c":[1,null,{"d":null}],"e":"x"}}`, `{"b":{"e":null,"f":{"g":null,"h":1.0}},"a":{"x":[null,{"y":null}]}}`},
	{`{"a":1}`, `{}`}, {`{}`, `{"a":null}`}, {`{}`, `{"b":1,"a":2}`}, {`{"a":null}`, `{"a":{"b":null}}`}, {`{"a":[1]}`, `{"a":{"b":1e400}}`},
	{` { "a" : { } , "b" : "}" } `, ` { "a" : { "<" : "é" } } `}, {`{"a\"b":1,"\u003c":2}`, `{"a\"b":null,"<":3}`}, {`{"":{"":1}}`, `{"":{"":2}}`},
	{`{"a":{"b":1}}`, `{"a":1,"a":{"b":2}}`}, {`{"a":12345678901234567890}`, `{"b":12345678901234567890}`}, {`{"a":1}`, `{"a":true,"b":false}`},
	{`[1]`, `{"a":1}`}, {`{"a":1}`, `[1]`}, {`{"a":1}`, `null`}, {`{"a":1}`, `{"a":1}x`}, {`{"a":1}`, `{"a"`}, {`{"a":1}`, ``}, {`{"a":1}`, `"x"`},
}

// FuzzMerge compares the result with that of the library that kube-apiserver uses.
func FuzzMerge(f *testing.F) {
	for _, m := range merges {
		f.Add([]byte(m[0]), []byte(m[1]))
	}
	f.Fuzz(func(t *testing.T, doc, patch []byte) {
		var object map[string]any
		if json.Unmarshal(doc, &object) != nil || object == nil {
			return
		}
		doc, err := json.Marshal(object) // removes duplicate names
		if err != nil {
			return
		}
		got, err := Merge(doc, patch)
		if err != nil {
			return // Merge leaves them to the library
		}
		want, err := jsonpatch.MergePatch(doc, patch)
		if err != nil {
			t.Fatalf("Merge(%q, %q) is %q, of the library %v", doc, patch, got, err)
		}
		if a, b := numbers(t, got), numbers(t, want); !reflect.DeepEqual(a, b) {
			t.Errorf("Merge(%q, %q) is %q, of the library %q", doc, patch, got, want)
		}
	})
}

// numbers decodes JSON with the numbers as they are written.
func numbers(t *testing.T, data []byte) (v any) {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	return v
}

func TestMergeRefuses(t *testing.T) {
	for _, m := range merges[len(merges)-7:] {
		if got, err := Merge([]byte(m[0]), []byte(m[1])); err == nil {
			t.Errorf("Merge(%s, %s) is %s", m[0], m[1], got)
		}
	}
}

// A deep document is scanned once, not once for each level.
func TestMergeDeep(t *testing.T) {
	const depth = 5000
	nest := func(inner string) []byte {
		return []byte(strings.Repeat(`{"a":`, depth) + inner + strings.Repeat(`}`, depth))
	}
	long := strings.Repeat("x", 1<<20)
	began := time.Now()
	got, err := Merge(nest(`"`+long+`"`), nest(`"`+long+`y"`))
	if err != nil || len(got) != len(nest(`"`+long+`y"`)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	t.Log(time.Since(began))
}

// BenchmarkMerge measures a patch of a label of a large object.
func BenchmarkMerge(b *testing.B) {
	doc := []byte(`{"kind":"Pod","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"containers":[` + strings.Repeat(`{"name":"a","image":"b","env":[{"name":"x","value":"y"}]},`, 100) + `{}]}}`)
	patch := []byte(`{"metadata":{"labels":{"a":"c"}}}`)
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, err := Merge(doc, patch); err != nil {
			b.Fatal(err)
		}
	}
}
