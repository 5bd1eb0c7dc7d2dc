package jsonobject

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"
)

// filler makes random objects.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(10).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = resource.MustParse([]string{"1", "1500m", "0", "2Gi", "1e3"}[c.Intn(5)])
		},
		func(t *metav1.Time, c randfill.Continue) { t.Time = time.Unix(int64(c.Intn(1e9)), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) { t.Time = time.UnixMicro(int64(c.Intn(1e9))) },
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawString(fmt.Sprintf(`{"f:%d":{}}`, c.Intn(2))) },
		func(i *intstr.IntOrString, c randfill.Continue) {
			*i = []intstr.IntOrString{intstr.FromInt32(7), intstr.FromString("25%"), intstr.FromString("a\nb")}[c.Intn(3)]
		},
		func(j *apiextensionsv1.JSON, c randfill.Continue) {
			j.Raw = fmt.Appendf(nil, `{"a":[%d, "x"]}`, c.Intn(2))
		},
		func(r *runtime.RawExtension, c randfill.Continue) {
			r.Raw = fmt.Appendf(nil, `{"kind":"x%d"}`, c.Intn(2))
		},
	)
}

// agree compares Decode with the library and says whether Decode took the document.
func agree(t *testing.T, typ reflect.Type, data []byte) bool {
	t.Helper()
	got, want := reflect.New(typ), reflect.New(typ)
	took := Decode(data, got.Interface(), len(data)%2 == 0)
	strict, err := kjson.UnmarshalStrict(data, want.Interface())
	switch {
	case !took && !got.Elem().IsZero():
		t.Fatalf("%v: %.2000s was not taken, but left something behind", typ, data)
	case took && (err != nil || len(strict) > 0):
		t.Fatalf("%v: %.2000s was taken; the library says %v %v", typ, data, strict, err)
	case took && !reflect.DeepEqual(got.Interface(), want.Interface()):
		t.Fatalf("%v: of %.2000s was made\n%#v, not\n%#v", typ, data, got, want)
	}
	return took
}

// apiTypes returns the Go types of all kinds of Kubernetes.
func apiTypes() []reflect.Type {
	types := []reflect.Type{reflect.TypeFor[apiextensionsv1.CustomResourceDefinition]()}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version != runtime.APIVersionInternal {
			types = append(types, typ)
		}
	}
	return types
}

// What Decode takes it decodes as the library does; it takes every object that is written without a mistake.
func TestTypesAgree(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	r := rand.New(rand.NewSource(1))
	for _, typ := range apiTypes() {
		f := filler(r.Int63())
		for range rounds {
			obj := reflect.New(typ)
			f.Fill(obj.Interface())
			data, err := json.Marshal(obj.Interface())
			if err != nil {
				continue // a union of which both sides are set
			}
			if !agree(t, typ, data) || !Valid(data) {
				t.Errorf("%v is left to the library: %.300s", typ, data)
			}
			for range 10 {
				agree(t, typ, spoilt(r, data))
			}
		}
	}
}

// spoilt returns a document with a mistake, mostly.
func spoilt(r *rand.Rand, data []byte) []byte {
	out := bytes.Clone(data)
	at := r.Intn(len(out))
	switch r.Intn(5) {
	case 0:
		out[at] = `{}[]",:0129-.eE\ntfu `[r.Intn(21)]
	case 1:
		out = append(out[:at], out[min(len(out), at+1+r.Intn(3)):]...)
	case 2: // a value of another type
		if n := bytes.IndexByte(out[at:], ':'); n >= 0 {
			value := []string{`null`, `1`, `1.5`, `-1`, `"x"`, `"a\u0062"`, `{}`, `[]`, `[null]`, `{"a":null}`, `true`, `1e400`, `99999999999`}[r.Intn(13)]
			out = []byte(string(out[:at+n+1]) + value + "," + string(out[at+n+1:]))
		}
	case 3: // a field more, or one twice
		if n := bytes.IndexByte(out[at:], '{'); n >= 0 {
			name := []string{"metadata", "name", "spec", "nonsense", "labels", "f", "Name", ""}[r.Intn(8)]
			out = []byte(string(out[:at+n+1]) + `"` + name + `":null,` + string(out[at+n+1:]))
		}
	case 4: // white space
		out = []byte(strings.NewReplacer(":", ": ", ",", " ,\n", "{", "\t{").Replace(string(out)))
	}
	return out
}

func TestTypesByHand(t *testing.T) {
	type foreign struct {
		Any any `json:"any"`
	}
	type inner struct {
		A int8  `json:"a"`
		B uint8 `json:"-"`
	}
	type doc struct {
		inner
		Inner inner           `json:"inner"`
		M     map[string]bool `json:"m"`
		P     *[]string       `json:"p"`
		Bytes []byte          `json:"bytes"`
		F     float32         `json:"f"`
		Time  *metav1.Time    `json:"time"`
	}
	type sound struct {
		Inner inner            `json:"inner"`
		M     map[string]inner `json:"m"`
		P     *[]string        `json:"p"`
		Bytes []byte           `json:"bytes"`
		F     float32          `json:"f"`
		U     uint16           `json:"u"`
		Time  *metav1.Time     `json:"time"`
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[foreign](), reflect.TypeFor[doc]()} {
		if agree(t, typ, []byte(`{}`)) {
			t.Errorf("%v was taken", typ)
		}
	}
	for text, want := range map[string]bool{
		`{}`: true, ` { } `: true, `{}{}`: false, `{`: false, `null`: false, ``: false, `[]`: false,
		`{"inner":{"a":127}}`: true, `{"inner":{"a":128}}`: false, `{"inner":{"a":-128}}`: true, `{"inner":{"a":1.0}}`: false, `{"inner":{"B":1}}`: false,
		`{"inner":null,"m":null,"p":null,"bytes":null,"f":null,"u":null,"time":null}`: true,
		`{"m":{"a":{},"b":{"a":1}}}`: true, `{"m":{"a":{},"a":{}}}`: false, `{"m":{"\u0061":{},"a":{}}}`: false, `{"m":{}}`: true,
		`{"p":[]}`: true, `{"p":["a","b","c"]}`: true, `{"p":["a",null]}`: true, `{"p":{}}`: false, `{"p":["a" "b"]}`: false, `{"p":["a",]}`: false,
		`{"bytes":"aGk="}`: true, `{"bytes":"a"}`: false, `{"bytes":[1]}`: false, `{"f":1e3}`: true, `{"f":1e39}`: false, `{"u":65536}`: false, `{"u":-1}`: false,
		`{"time":"2026-01-02T03:04:05+02:00"}`: true, `{"time":"yesterday"}`: false, `{"time":1}`: false, `{"Inner":{}}`: false, `{"inner":{},"inner":{}}`: false,
		strings.Repeat(`{"m":`, 600): false,
	} {
		if took := agree(t, reflect.TypeFor[sound](), []byte(text)); took != want {
			t.Errorf("%s: taken %v, not %v", text, took, want)
		}
	}
	if preset := (&sound{U: 1}); Decode([]byte(`{}`), preset, false) || preset.U != 1 {
		t.Error("a value that is not zero was decoded into")
	}
}

func FuzzTypes(f *testing.F) {
	for _, d := range []string{`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}}`, `{"spec":{"nodeName":"\u00e9"}}`} {
		f.Add([]byte(d))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		agree(t, reflect.TypeFor[corev1.Pod](), data)
		agree(t, reflect.TypeFor[apiextensionsv1.CustomResourceDefinition](), data)
	})
}

func BenchmarkTypes(b *testing.B) {
	data, err := os.ReadFile("../../../bench/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if !Decode(data, &corev1.Pod{}, false) {
				b.Fatal("not taken")
			}
		}
	})
	b.Run("sigs.k8s.io", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := kjson.UnmarshalStrict(data, &corev1.Pod{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
