package jsonobject

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Valid says of documents, and of what is nearly one, what encoding/json says.
func TestValid(t *testing.T) {
	for _, text := range append([]string{`"\u00e9\uD800"`, `"\u00g9"`, `"\u00`, `"\x"`, `"\`, `"`, "\"\x01\"", "\"\xff\"", `[`, `]`, `{]`, `[}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `[,]`, `[1,]`,
		`{"a":1 "b":2}`, `{1:2}`, `[[[[]]]]`, `{"a":[{"b":{}}]}`, `{"a":[{"b":{}]}`, `-`, `-0`, `01`, `1.`, `1e`, `tru`, `nul`, ` 1 `, `1 2`, ``, `{"a":[1,{"b":[]}],"c":{}}`}, objects...) {
		if got, want := Valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%s: valid %v, not %v", text, got, want)
		}
	}
	for depth, want := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
		if got := Valid([]byte(strings.Repeat(`[{"a":`, depth/2) + strings.Repeat("[", depth%2) + "1" + strings.Repeat("]", depth%2) + strings.Repeat("}]", depth/2))); got != want {
			t.Errorf("%d levels: valid %v", depth, got)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, o := range objects {
		f.Add([]byte(o))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, want := Valid(data), json.Valid(data)
		if levels := bytes.Count(data, []byte("[")) + bytes.Count(data, []byte("{")); got != want && (got || levels <= maxDepth) {
			t.Errorf("%q: valid %v, not %v", data, got, want)
		}
	})
}

// A raw document is appended as encoding/json appends what MarshalJSON has returned.
func TestAppendRaw(t *testing.T) {
	for _, text := range append([]string{` {"a" : "<&>` + "\u2028" + `"} `, `{`, `{"a":1}x`, strings.Repeat("[", 600) + strings.Repeat("]", 600), "\"\u2029\u00e9\""}, objects...) {
		want, wrong := json.Marshal(json.RawMessage(text))
		got, ok := AppendRaw([]byte("before"), []byte(text), false)
		if ok != (wrong == nil) || ok && string(got) != "before"+string(want) {
			t.Errorf("%s is written %s, %v, not %s, %v", text, got, ok, want, wrong)
		}
	}
}

// BenchmarkValid looks at the fields of a manager, most of whose names have escapes.
func BenchmarkValid(b *testing.B) {
	doc := []byte(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:name":{}}}}}}}`)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if !Valid(doc) {
			b.Fatal("not valid")
		}
	}
}
