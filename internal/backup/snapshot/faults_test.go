package snapshot_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/backup/snapshot"
	"github.com/kanzen-io/kanzen/internal/process/encryption"
	"github.com/kanzen-io/kanzen/internal/store"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// stored is a ConfigMap as it is stored, which says that it is of a kind.
func stored(t *testing.T, kind, namespace, name string) []byte {
	t.Helper()
	raw, err := (&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"a": "b"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	u := &runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
	value, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), value...)
}

// TestCheckObjects damages one object at a time, in each way in which one can be wrong.
func TestCheckObjects(t *testing.T) {
	t.Parallel()
	kinds := snapshot.NewKinds("/registry", builtin.Resources(builtin.Deps{}), func(schema.GroupResource) store.Transformer { return encryption.None{} })
	definition, err := json.Marshal(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}}}})
	if err != nil {
		t.Fatal(err)
	}
	widget := func(kind, version, name string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"example.com/%s","kind":%q,"metadata":{"namespace":"a","name":%q}}`, version, kind, name)
	}
	good := stored(t, "ConfigMap", "a", "b")
	sound := map[string][]byte{
		"/registry/configmaps/a/b": good, "/registry/configmaps/a/json": []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"json"}}`),
		"/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com": definition, "/registry/example.com/widgets/a/w": widget("Widget", "v1", "w"),
		"/registry/masterleases/10.0.0.1": []byte("anything"), "compact_rev_key": []byte("1"), "/registry/secrets/a/s": []byte("k8s:enc:aesgcm:v1:one:abc"),
	}
	faults := map[string]struct {
		value []byte
		want  string
	}{
		"/registry/configmaps/a/other":        {good, "it says that it is configmaps a/b"},
		"/registry/configmaps/z/b":            {good, "it says that it is configmaps a/b"},
		"/registry/configmaps/a/kind":         {stored(t, "Secret", "a", "kind"), `it says that it is a "Secret", not a ConfigMap`},
		"/registry/configmaps/a/cut":          {stored(t, "ConfigMap", "a", "cut")[:len(good)-6], "decode:"},
		"/registry/configmaps/a/flipped":      {bytes.Replace(stored(t, "ConfigMap", "a", "flipped"), []byte("k8s\x00"), []byte("k8r\x00"), 1), "decode:"},
		"/registry/configmaps/a/text":         {[]byte(`{"kind":"ConfigMap","metadata":{"name":"te`), "decode:"},
		"/registry/configmaps/a":              {good, "it is no key of configmaps"},
		"/registry/example.com/widgets/a/x":   {widget("Widget", "v1", "y"), "it says that it is widgets.example.com a/y"},
		"/registry/example.com/widgets/a/k":   {widget("Gadget", "v1", "k"), "its definition says Widget"},
		"/registry/example.com/widgets/a/v":   {widget("Widget", "v7", "v"), "its definition has no version v7"},
		"/registry/example.com/widgets/a/j":   {[]byte(`{"apiVersion"`), "decode:"},
		"/registry/example.com/gadgets/a/g":   {widget("Gadget", "v1", "g"), "there is no definition of gadgets.example.com"},
		"/registry/example.com/widgets/scope": {[]byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"scope"}}`), "not of the scope of its definition"},
	}
	eachEngine(t, func(t *testing.T, db database) {
		for key, value := range sound {
			commit(t, db, kv.Op{Key: key, Value: value})
		}
		found, err := kinds.CheckObjects(t.Context(), db, false)
		if err != nil || found.Faulty != 0 || found.Objects != 5 || found.Sealed != 1 {
			t.Errorf("a sound database: %+v, %v", found, err)
		}
		for key, fault := range faults {
			was := commit(t, db, kv.Op{Key: key, Value: fault.value})
			found, err := kinds.CheckObjects(t.Context(), db, false)
			if err != nil || found.Faulty != 1 || found.Faults[0].Key != key || !strings.Contains(found.Faults[0].Err.Error(), fault.want) {
				t.Errorf("%s at %d: %+v, %v; want %q", key, was, found, err, fault.want)
			}
			commit(t, db, kv.Op{Key: key, Delete: true})
		}
		found, err = kinds.CheckObjects(t.Context(), db, true) // nothing decrypts it
		if err != nil || found.Faulty != 1 || found.Faults[0].Key != "/registry/secrets/a/s" || !strings.Contains(found.Faults[0].Err.Error(), "decrypt") {
			t.Errorf("what cannot be decrypted: %+v, %v", found, err)
		}
		for n := range 80 {
			commit(t, db, kv.Op{Key: fmt.Sprintf("/registry/configmaps/many/%d", n), Value: good})
		}
		if found, err = kinds.CheckObjects(t.Context(), db, false); err != nil || found.Faulty != 80 || len(found.Faults) != 50 {
			t.Errorf("of 80 faults: %d, %d are told; %v", found.Faulty, len(found.Faults), err)
		}
	})
}
