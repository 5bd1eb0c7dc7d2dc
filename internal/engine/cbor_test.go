package engine

import (
	"bytes"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/object/cbor"
	"github.com/kanzen-io/kanzen/internal/request"
)

// cborBodies decodes a body as each kind of object.
func cborBodies(t *testing.T, data []byte) (errs []error) {
	t.Helper()
	for _, obj := range []Object{&corev1.Pod{}, &corev1.ConfigMap{}, &unstructured.Unstructured{}} {
		for _, validation := range []string{metav1.FieldValidationStrict, metav1.FieldValidationIgnore} {
			want := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
			obj := obj.DeepCopyObject().(Object)
			err := decodeBody(t.Context(), data, mediaCBOR, obj, want, validation, nil)
			if got := obj.GetObjectKind().GroupVersionKind(); err == nil && got.GroupVersion() != want.GroupVersion() {
				t.Errorf("%x is a %v", data, got)
			}
			errs = append(errs, err)
		}
	}
	_, err := configFromCBOR(data)
	return append(errs, err)
}

func FuzzCBOR(f *testing.F) {
	for _, doc := range []string{
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1e3"}},"livenessProbe":{"httpGet":{"port":80}}}]}}`,
		`{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"b"},"binaryData":{"x":"AP8="},"metadata":{"managedFields":[{"fieldsV1":{"f:data":{}}}]}}`,
		`{"kind":5}`, `{"apiVersion":"a/b/c","kind":"Pod"}`, `{"spec":{"overhead":{"cpu":"1e999999999"}}}`,
	} {
		b, err := cbor.FromJSON([]byte(doc))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, raw := range []string{"", "\xf6", "\xa0", "\x80", "\xff", "\xa1\x41a\xd6\x42hi", "\xbf\x61a\x9f\x01\xff\xff", strings.Repeat("\x81", 200), "\xa2\x41a\x01\x41a\x02", "\xa1\x41a\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00"} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, err := range cborBodies(t, data) {
			if err != nil {
				blamesClient(t, err)
			}
		}
	})
}

// Bodies that are nested too deeply, or hold too many values, are refused, and cost no more than they are long.
func TestCBORBounds(t *testing.T) {
	array := func(n int, item string) []byte {
		head := []byte{0xa1, 0x44, 's', 'p', 'e', 'c', 0x9a, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
		return append(head, bytes.Repeat([]byte(item), n)...)
	}
	for name, data := range map[string][]byte{
		"nested":       append([]byte("\xa1\x44spec"), bytes.Repeat([]byte{0x81}, 3<<20)...),
		"tags":         append([]byte("\xa1\x44spec"), bytes.Repeat([]byte{0xc0}, 3<<20)...),
		"values":       array(3<<20, "\xf6"),
		"maps":         array(3<<20, "\xa0"),
		"a long array": {0xa1, 0x44, 's', 'p', 'e', 'c', 0x9b, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff},
		"a long text":  {0xa1, 0x44, 's', 'p', 'e', 'c', 0x5b, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		errs := cborBodies(t, data)
		runtime.ReadMemStats(&after)
		for _, err := range errs {
			if !apierrors.IsBadRequest(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
			t.Errorf("%s: refused for %d MiB", name, took>>20)
		}
	}
}

// A list of metadata without items has null, as that in JSON has.
func TestEmptyListInCBOR(t *testing.T) {
	x := newKinds(t)
	for _, of := range []struct{ path, accept, want string }{
		{deploys, "application/cbor", `"items":[]`}, {widgAt, "application/cbor", `"items":[]`},
		{deploys, "application/cbor;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", `"items":null`},
	} {
		r, w := x.request(t.Context(), "GET "+of.path, "", "Accept: "+of.accept), httptest.NewRecorder()
		request.InfoFrom(r.Context()).CBOR = true
		x.serve(w, r)
		if doc, err := cbor.ToJSON(w.Body.Bytes()); err != nil || !strings.Contains(string(doc), of.want) {
			t.Errorf("%s as %s: %v %s", of.path, of.accept, err, doc)
		}
	}
}
