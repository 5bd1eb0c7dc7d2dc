package transcode_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kanzen-io/kanzen/internal/object/transcode"
)

// message is a Go type with generated protobuf.
type message interface {
	metav1.Object
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// kinds are all kinds that are stored as protobuf.
func kinds() map[schema.GroupVersionKind]reflect.Type {
	out := map[schema.GroupVersionKind]reflect.Type{}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if _, ok := reflect.New(t).Interface().(message); ok && gvk.Version != runtime.APIVersionInternal {
			out[gvk] = t
		}
	}
	return out
}

// unplanned are the kinds that have to be decoded.
var unplanned = []string{
	"CertificateSigningRequest", // extra of the user: a map of lists
	"LocalSubjectAccessReview", "SelfSubjectReview", "SubjectAccessReview", "TokenReview",
	"TokenRequest", // attestations: values that read themselves
}

func TestEveryKindHasAPlan(t *testing.T) {
	for gvk, typ := range kinds() {
		_, err := transcode.Compile(typ, transcode.Options{})
		if slices.Contains(unplanned, gvk.Kind) != (err != nil) {
			t.Errorf("%s: %v", gvk, err)
		}
	}
}

// The JSON of random objects of all kinds is that of encoding/json.
func TestSameAsObject(t *testing.T) {
	r := random{rand.New(rand.NewPCG(1, 2))}
	for gvk, typ := range kinds() {
		if slices.Contains(unplanned, gvk.Kind) {
			continue
		}
		for n := range 30 {
			r.compare(t, typ, n%4)
		}
		if t.Failed() {
			t.Fatalf("%s", gvk)
		}
	}
}

func (r random) compare(t *testing.T, typ reflect.Type, depth int) {
	t.Helper()
	obj := reflect.New(typ).Interface().(message)
	r.fill(reflect.ValueOf(obj).Elem(), 3+2*depth)
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	obj.SetResourceVersion("")
	raw, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	judge(t, typ, raw)
}

// judge compares the JSON of bytes with that of the object that they decode to, in all forms.
func judge(t *testing.T, typ reflect.Type, raw []byte) {
	t.Helper()
	obj := reflect.New(typ).Interface().(message)
	if err := obj.Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	obj.SetResourceVersion("77")
	for _, o := range []transcode.Options{{}, {DropManaged: true}} {
		p, err := transcode.Compile(typ, o)
		if err != nil {
			t.Fatal(err)
		}
		if o.DropManaged {
			obj.SetManagedFields(nil)
		}
		same(t, p, raw, obj)
		meta := obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
		same(t, p.Metadata(), raw, &metav1.PartialObjectMetadata{ObjectMeta: *meta})
	}
}

func same(t *testing.T, p *transcode.Plan, raw []byte, obj any) {
	t.Helper()
	want, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Append(nil, raw, 77)
	if err != nil {
		t.Fatalf("%v; want %s", err, want)
	}
	if string(got) != string(want) {
		n := 0
		for n < min(len(got), len(want)) && got[n] == want[n] {
			n++
		}
		t.Fatalf("differs at %d:\n got …%.300s\nwant …%.300s", n, got[max(n-60, 0):], want[max(n-60, 0):])
	}
}

// FuzzAppend gives the plan damaged bytes: it must fail, or agree with the object that they decode to.
func FuzzAppend(f *testing.F) {
	r := random{rand.New(rand.NewPCG(3, 4))}
	for range 50 {
		p := &corev1.Pod{}
		r.fill(reflect.ValueOf(p).Elem(), 5)
		raw, err := p.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	plan, err := transcode.Compile(reflect.TypeFor[corev1.Pod](), transcode.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := plan.Append(nil, raw, 77)
		if err != nil {
			return
		}
		var p corev1.Pod
		if err := p.Unmarshal(raw); err != nil {
			t.Fatalf("the object fails: %v; got %s", err, got)
		}
		p.ResourceVersion = "77"
		if want, err := json.Marshal(&p); err != nil || string(got) != string(want) {
			t.Fatalf("%v\n got %s\nwant %s", err, got, want)
		}
	})
}

// random makes values of API types, with more empty and odd ones than there are in practice.
type random struct{ *rand.Rand }

var texts = []string{"", "a", "web-0", "<b>&\"quoted\"\\", "line\nbreak\ttab\x01", "日本\u2028語", "bad \xff utf8", strings.Repeat("long ", 40)}

func (r random) text() string { return texts[r.IntN(len(texts))] }

func (r random) fill(v reflect.Value, depth int) {
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		if r.IntN(3) > 0 {
			*p = metav1.Unix(r.Int64N(4e9)-1e9, 0)
		}
		return
	case *metav1.MicroTime:
		if r.IntN(3) > 0 {
			*p = metav1.NewMicroTime(time.Unix(r.Int64N(4e9), r.Int64N(1e9)))
		}
		return
	case *metav1.Duration:
		p.Duration = time.Duration(r.Int64N(1e13) - 1e9)
		return
	case *resource.Quantity:
		*p = resource.MustParse(fmt.Sprint(r.Int64N(3)*r.Int64N(2048)) + []string{"", "m", "k", "Ki", "Mi", "M", "e3", "G", "n"}[r.IntN(9)])
		return
	case *intstr.IntOrString:
		*p = []intstr.IntOrString{intstr.FromInt32(r.Int32()), intstr.FromString(r.text()), {}}[r.IntN(3)]
		return
	case *runtime.RawExtension:
		p.Raw = [][]byte{nil, []byte(`{}`), []byte(`{"a":1,"b":"x"}`), []byte("{ \"a\": [1, \"<&>\"]}\n")}[r.IntN(4)]
		return
	case *metav1.FieldsV1:
		p.SetRawString([]string{"", `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`, `{"k:{\"name\":\"a b\"}":{}}`}[r.IntN(3)])
		return
	}
	if depth == 0 && v.Kind() != reflect.Struct {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for n := range v.NumField() {
			if v.Type().Field(n).IsExported() && (depth > 0 || r.IntN(2) == 0 && v.Type().Field(n).Type.Kind() == reflect.String) {
				r.fill(v.Field(n), max(depth-1, 0))
			}
		}
	case reflect.Pointer:
		if r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			r.fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		if r.IntN(3) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
			for n := range v.Len() {
				r.fill(v.Index(n), depth-1)
			}
		}
	case reflect.Map:
		if r.IntN(3) > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range r.IntN(4) {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				r.fill(key, 1)
				r.fill(value, depth-1)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.String:
		v.SetString(r.text())
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, int64(r.Int32()), -int64(r.Int32())}[r.IntN(5)])
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(r.IntN(256)))
	}
}

func pod(tb testing.TB) (raw []byte) {
	r := random{rand.New(rand.NewPCG(5, 6))}
	for len(raw) < 2500 || len(raw) > 5000 {
		p := &corev1.Pod{}
		r.fill(reflect.ValueOf(p).Elem(), 7)
		var err error
		if raw, err = p.Marshal(); err != nil {
			tb.Fatal(err)
		}
	}
	return raw
}

func BenchmarkPod(b *testing.B) {
	raw := pod(b)
	b.Run("plan", func(b *testing.B) {
		p, err := transcode.Compile(reflect.TypeFor[corev1.Pod](), transcode.Options{})
		if err != nil {
			b.Fatal(err)
		}
		var dst []byte
		b.ReportAllocs()
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if dst, err = p.Append(dst[:0], raw, 77); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("object", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			var p corev1.Pod
			if err := p.Unmarshal(raw); err != nil {
				b.Fatal(err)
			}
			if _, err := json.Marshal(&p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
