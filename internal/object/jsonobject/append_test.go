package jsonobject

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

var objects = []string{
	`null`, `true`, `{}`, `[]`, `""`, `{"b":1,"a":{"d":[1,2.5,-0.0000001,1e22,"x"],"c":null}}`,
	`"a\"\\\u0000\b\f\n\r\t<>&\u2028\u2029é\ud800 ` + "\xff" + `"`, `{"":{"":""},"é":1e-9,"z":123456789012}`,
}

func FuzzMarshal(f *testing.F) {
	for _, o := range objects {
		f.Add([]byte(o))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		if json.Unmarshal(data, &v) != nil {
			return
		}
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Marshal(v)
		if err != nil || string(got) != string(want) {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	})
}

func TestMarshalOthers(t *testing.T) {
	for _, v := range []any{int64(-5), int32(7), json.Number("12"), map[string]any(nil), []any(nil), map[string]any{"a": []string{"b"}}, "\xff\xfe<"} {
		want, _ := json.Marshal(v)
		if got, err := Marshal(v); err != nil || string(got) != string(want) {
			t.Errorf("%#v: got %s, %v, want %s", v, got, err, want)
		}
	}
	for _, v := range []any{math.NaN(), map[string]any{"a": []any{math.Inf(1)}}, func() {}} {
		if got, err := Marshal(v); err == nil {
			t.Errorf("%v: got %s", v, got)
		}
	}
}

// Strings are looked at eight bytes at a time: what must be escaped is found at each place of them, beside each other byte.
func TestAppendStringAtEachPlace(t *testing.T) {
	for n := range 26 {
		for at := range n {
			for b := range 256 {
				for _, beside := range []byte{'x', ' ', 0x21, '"', 0xc3} {
					s := bytes.Repeat([]byte{'y'}, n)
					if at > 0 {
						s[at-1] = beside
					}
					s[at] = byte(b)
					want, err := json.Marshal(string(s))
					if err != nil {
						t.Fatal(err)
					}
					if got := AppendString(nil, s); string(got) != string(want) {
						t.Fatalf("%q: got %s, want %s", s, got, want)
					}
				}
			}
		}
	}
}

func BenchmarkAppendString(b *testing.B) {
	for name, s := range map[string]string{"name": "kube-system", "text": strings.Repeat("plain text of a value ", 40), "json": strings.Repeat(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","labels":{"app":"web"}}}`, 10), "lines": strings.Repeat("cache.timeout=8f3a02\n", 40)} {
		b.Run(name, func(b *testing.B) {
			var dst []byte
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				dst = AppendString(dst[:0], s)
			}
		})
	}
}

func BenchmarkMarshal(b *testing.B) {
	spec := map[string]any{}
	for _, k := range []string{"image", "replicas", "enabled", "ports", "labels", "size", "weight", "owner", "description", "zone"} {
		spec[k] = map[string]any{"value": "some text of usual length", "count": int64(12345), "list": []any{"a", "b", true}}
	}
	v := map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "spec": spec}
	for name, f := range map[string]func(any) ([]byte, error){"ours": Marshal, "encoding/json": json.Marshal} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
