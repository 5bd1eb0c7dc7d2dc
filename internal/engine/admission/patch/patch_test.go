package patch_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/engine/admission/patch"
)

func configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"k": "v"}}
}

func apply(obj runtime.Object, ops string, strict bool) (runtime.Object, error) {
	p, err := patch.Decode([]byte(ops))
	if err != nil {
		return nil, err
	}
	doc, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	if doc, err = patch.Apply(p, doc); err != nil {
		return nil, err
	}
	return patch.DecodeObject(doc, obj, strict)
}

func TestPatch(t *testing.T) {
	for _, c := range []struct {
		ops    string
		strict bool
		fails  string
	}{
		{`[{"op":"add","path":"/data/x","value":"y"}]`, true, ""},
		{`[{"op":"add","path":"/nothing","value":1}]`, false, ""},
		{`[{"op":"add","path":"/nothing","value":1}]`, true, `unknown field "nothing"`},
		{`[{"op":"replace","path":"/data","value":1}]`, false, "cannot unmarshal"},
		{`[{"op":"replace","path":"/kind","value":"Secret"}]`, false, "the patch made"},
		{`[{"op":"remove","path":"/data/x"}]`, false, "missing"},
		{`[null]`, false, "null"},
		{`[{"op":"replace","path":""}]`, false, ""},
		{`{}`, false, "cannot unmarshal"},
	} {
		_, err := apply(configMap(), c.ops, c.strict)
		if c.ops == `[{"op":"replace","path":""}]` {
			if err == nil {
				t.Error("a replacement without a value was taken")
			}
			continue
		}
		if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: got %v, want %q", c.ops, err, c.fails)
		}
	}
	if _, err := patch.Decode([]byte("[" + strings.Repeat(`{"op":"test","path":"/a"},`, patch.MaxOperations) + `{"op":"test","path":"/a"}]`)); err == nil {
		t.Error("a patch without bounds was taken")
	}
}

// Whatever a webhook answers, applying it ends with an object or an error.
func FuzzPatch(f *testing.F) {
	for _, s := range []string{`[{"op":"add","path":"/data/x","value":"y"}]`, `[{"op":"copy","from":"/data","path":"/data/k"}]`, `[null]`,
		`[{"op":"replace","path":""}]`, `[{"op":"test","path":"/data/k"}]`, `[{"op":"move","from":"","path":"/a/b"}]`, `[{"op":"remove","path":"/metadata/name/-1"}]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ops string) {
		_, _ = apply(configMap(), ops, true)
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "W", "spec": map[string]any{"list": []any{int64(1)}}}}
		_, _ = apply(u, ops, false)
	})
}
