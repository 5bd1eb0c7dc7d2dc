package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The fuzz targets of this file feed each decoder of client input. Input that
// cannot be decoded is the client's error, so the answer is a 4xx.

// blamesClient fails the test unless err is an API error of the 4xx kind.
func blamesClient(t *testing.T, err error) {
	t.Helper()
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		t.Fatalf("%T is no API error: %v", err, err)
	}
	if code := s.Status().Code; code < 400 || code > 499 {
		t.Fatalf("code %d: %v", code, err)
	}
}

func FuzzContinue(f *testing.F) {
	f.Add(encodeContinue("default/a\x00", 7))
	f.Add(encodeContinue("a\x00", -1))
	for _, token := range []string{
		`{"v":"meta.k8s.io/v1","rv":5,"start":"/a"}`,
		`{"v":"meta.k8s.io/v1","rv":5,"start":"/"}`,
		`{"v":"meta.k8s.io/v1","rv":5,"start":"a/../b"}`,
		`{"v":"meta.k8s.io/v1","rv":5,"start":"\u002e./b"}`,
		`{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`,
		`{"v":"v2","rv":5,"start":"a"}`,
		`{`,
	} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(token)))
	}
	f.Add("%")
	f.Fuzz(func(t *testing.T, token string) {
		start, rev, err := decodeContinue(token)
		if err != nil {
			return
		}
		if slices.Contains(strings.Split(start, "/"), "..") {
			t.Fatalf("%q leads out of the list", start)
		}
		if rev == 0 {
			t.Fatal("no revision")
		}
		if start == "" || start[0] == '/' {
			return // not a key of the list: before or at the first one
		}
		again, sameRev, err := decodeContinue(encodeContinue(start, rev))
		if err != nil || again != start || sameRev != rev {
			t.Fatalf("%q at %d came back as %q at %d, %v", start, rev, again, sameRev, err)
		}
	})
}

const patchedDoc = `{"metadata":{"name":"a","labels":{"k":"v"}},"data":{"x":"y","z":null},"list":[1,{"a":"b"},[]]}`

func FuzzJSONPatch(f *testing.F) {
	for _, body := range []string{
		`[{"op":"add","path":"/metadata/labels/l","value":"w"},{"op":"remove","path":"/data/x"}]`,
		`[{"op":"replace","path":"/list/1/a","value":{}},{"op":"add","path":"/list/-","value":null}]`,
		`[{"op":"test","path":"/data/z"},{"op":"move","from":"/list/0","path":"/list/2/0"}]`,
		`[{"op":"copy","from":"/metadata","path":"/data/m"},{"op":"test","path":"/data/m/name","value":"a"}]`,
		`[{"op":"add","path":"","value":1},{"op":"remove","path":""}]`,
		`[{"op":"add","path":"/list/-1","value":1},{"op":"remove","path":"/list/~0~1"}]`,
		`[{"op":"test","path":""}]`, `[{"op":"replace","path":""}]`,
		`[{"op":"add","path":"/b","value":["xxxxxxxxxxxxxxxx"]}` + strings.Repeat(`,{"op":"copy","from":"/b","path":"/b/-"}`, 30) + `]`,
		`[{"op":1,"path":null}]`, `[null]`, `[{}]`, `{}`, `null`, ``,
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, check bool) {
		out, _, err := jsonPatch([]byte(patchedDoc), body, check)
		if err != nil {
			blamesClient(t, err)
		} else if !json.Valid(out) {
			t.Fatalf("made %q", out)
		}
	})
}

func FuzzMergePatch(f *testing.F) {
	for _, body := range []string{
		`{"metadata":{"labels":{"k":null,"l":"w"}},"list":[]}`,
		`{"data":null,"metadata":[]}`, `{"a":1,"a":2}`, `{}`, `[]`, `[{"a":null}]`, `"a"`, `null`, ``,
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, check bool) {
		out, _, err := mergePatch([]byte(patchedDoc), body, check)
		if err != nil {
			blamesClient(t, err)
		} else if !json.Valid(out) {
			t.Fatalf("made %q", out)
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	f.Add(stored(f, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"k": "v"}}}))
	f.Add([]byte("k8s\x00"))
	f.Add([]byte("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("k8s\x00\x0a\x00\x12\x02\x0a\x00\x1a\x00\x22\x00"))
	f.Add([]byte("k8s"))
	f.Fuzz(func(t *testing.T, data []byte) {
		gvk, raw, err := envelope(data)
		if err != nil {
			return
		}
		// Both readers read the re-encoded object as the same.
		again := append(appendEnvelope(nil, typeMeta(gvk), len(raw)), raw...)
		again = append(again, envelopeTail...)
		gvk2, raw2, err := envelope(again)
		if err != nil || gvk2 != gvk || !bytes.Equal(raw2, raw) {
			t.Fatalf("%s of %q came back as %s of %q, %v", gvk, raw, gvk2, raw2, err)
		}
		if raw2, err = rawOf(again); err != nil || !bytes.Equal(raw2, raw) {
			t.Fatalf("rawOf is %q, %v, want %q", raw2, err, raw)
		}
	})
}

func FuzzDecodeBody(f *testing.F) {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"k": "v"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	f.Add(uint8(mediaProtobuf), uint8(0), stored(f, pod))
	text, err := json.Marshal(pod)
	if err != nil {
		f.Fatal(err)
	}
	for _, body := range []string{
		string(text),
		"apiVersion: v1\nkind: Pod\nmetadata: &m\n  name: a\n  name: b\nspec:\n  containers: [{<<: *m, resources: {limits: {cpu: 1}}}]\n",
		`{"apiVersion":"a/b/c","kind":"Pod"}`, `{"apiVersion":"apps/v1","kind":"Deployment"}`,
		`{"metadata":{"creationTimestamp":"x"}}`, `{"Spec":{},"spec":{},"spec":null}`, "a: [b\n", "- 1\n", "a: *b\n", `null`, ``,
	} {
		for n := range uint8(3) {
			f.Add(uint8(mediaJSON), n, []byte(body))
			f.Add(uint8(mediaYAML), n, []byte(body))
		}
	}
	want := corev1.SchemeGroupVersion.WithKind("Pod")
	validations := []string{metav1.FieldValidationIgnore, metav1.FieldValidationWarn, metav1.FieldValidationStrict}
	f.Fuzz(func(t *testing.T, m, validation uint8, data []byte) {
		obj := &corev1.Pod{}
		err := decodeBody(t.Context(), data, media(m%3), obj, want, validations[validation%3], nil)
		if err != nil {
			blamesClient(t, err)
		} else if obj.GroupVersionKind() != want {
			t.Fatalf("made a %s", obj.GroupVersionKind())
		}
	})
}
