package jsonobject

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
)

var documents = []string{
	``, ` `, `null`, `true`, `[]`, `{}`, ` { } `, `{}x`, `{} {}`, `{"a":1,}`, `{"a"}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":[1,]}`, `{"a":[1 2]}`,
	`{"a":null,"b":true,"c":false,"d":"x","e":[],"f":{},"g":[{}, [ ] ,null]}`, `{"a":nul}`, `{"a":truex}`, `{"a":tru`,
	`{"a":0,"b":-0,"c":-1,"d":9223372036854775807,"e":9223372036854775808,"f":-9223372036854775808,"g":-9223372036854775809}`,
	`{"a":1.0,"b":1e2,"c":1E+2,"d":1.5e-3,"e":-0.0}`, `{"a":1e400}`, `{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":+1}`, `{"a":--1}`,
	`{"a":1,"a":2}`, `{"a":{"b":1,"b":2},"c":[{"d":1,"d":{"e":1}},{"d":1,"d":2}]}`, `{"a":{"x":1},"a":{"y":2}}`, `{"\u0061":1,"a":2}`,
	`{"a":"\"\\\/\b\f\n\r\t"}`, `{"a":"\u003c\ud83d\ude00\ud83d"}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\`, `{"a":"\"`, `{"a":"é日本😀"}`,
	"{\"a\":\"\xff\xfe\"}", "{\"a\":\"\\n\xff\"}", "{\"\xff\":1}", "{\"a\":\"\n\"}", "{\"a\":\"\x00\"}", "{\"a\":\"\x7f\u2028\"}", "\ufeff{}", "{}\x00",
	strings.Repeat(`{"a":`, 400) + `1` + strings.Repeat(`}`, 400), strings.Repeat(`{"a":[`, 600) + `1` + strings.Repeat(`]}`, 600),
	strings.Repeat(`{"a":`, 20000), strings.Repeat(`{"a":`, 10001) + `1` + strings.Repeat(`}`, 10001),
}

// check compares the result with that of sigs.k8s.io/json.
func check(t *testing.T, data []byte) {
	t.Helper()
	if Valid(data) && !json.Valid(data) {
		t.Errorf("%.200q is taken for JSON", data)
	}
	text := func(errs ...error) string { return fmt.Sprint(errs) }
	var want map[string]any
	wantErr := kjson.UnmarshalCaseSensitivePreserveInts(data, &want)
	got, err := Unmarshal(data)
	if text(err) != text(wantErr) || wantErr == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%.200q is %v (%v), not %v (%v)", data, got, err, want, wantErr)
	}
	want = nil
	wantStrict, wantErr := kjson.UnmarshalStrict(data, &want)
	got, strict, err := UnmarshalStrict(data)
	if text(err) != text(wantErr) || text(strict...) != text(wantStrict...) || wantErr == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%.200q is %v (%v, %v), not %v (%v, %v)", data, got, strict, err, want, wantStrict, wantErr)
	}
}

func TestUnmarshal(t *testing.T) {
	for _, d := range documents {
		check(t, []byte(d))
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, d := range documents[:len(documents)-2] {
		f.Add([]byte(d))
	}
	f.Fuzz(check)
}

// sample returns a typical object: some depth, and fields of all types.
func sample() []byte {
	var b strings.Builder
	b.WriteString(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"default","uid":"b5c1","labels":{"a":"b"}},"spec":{`)
	for i := range 60 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"field%d":%s`, i, []string{`"value-1"`, `17`, `true`, `["a","b","c"]`, `{"name":"x","key":"y"}`}[i%5])
	}
	b.WriteString(`}}`)
	return []byte(b.String())
}

func BenchmarkUnmarshal(b *testing.B) {
	data := sample()
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := UnmarshalStrict(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sigs.k8s.io", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var m map[string]any
			if _, err := kjson.UnmarshalStrict(data, &m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
