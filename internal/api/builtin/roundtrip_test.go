package builtin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/diff"
	kjson "sigs.k8s.io/json"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/api/builtin/resource"
	"github.com/kanzen-io/kanzen/internal/engine"
)

// kind is one kind in one of its served versions.
type kind struct {
	schema.GroupVersionKind
	v, hub *engine.Version
}

// kinds returns every built-in kind in every version, in a stable order.
func kinds() []kind {
	var ks []kind
	now := func() time.Time { return time.Unix(1700000000, 0) }
	for _, r := range builtin.Resources(builtin.Deps{Resource: resource.Deps{Now: now}}) {
		var hub *engine.Version
		for _, v := range r.Versions {
			if v.GroupVersion == r.Hub {
				hub = v
			}
		}
		for _, v := range r.Versions {
			name := r.Kind
			if v.Kind != "" {
				name = v.Kind
			}
			ks = append(ks, kind{v.WithKind(name), v, hub})
		}
	}
	return ks
}

// sampled reports whether k8s.io/api has samples of the kind; two groups are in other modules.
func (k kind) sampled() bool {
	return k.Group != "apiextensions.k8s.io" && k.Group != "apiregistration.k8s.io"
}

// sample returns a published sample of the encoding of a kind in k8s.io/api, in which every field is set.
func (k kind) sample(t testing.TB, dir, ext string) []byte {
	t.Helper()
	if !k.sampled() {
		t.Skip("k8s.io/api does not have the group")
	}
	group := k.Group
	if group == "" {
		group = "core"
	}
	b, err := os.ReadFile(filepath.Join(dir, strings.Join([]string{group, k.Version, k.Kind, ext}, ".")))
	if err != nil {
		t.Fatal(err)
	}
	if ext == "json" {
		// Raw JSON inside an object is kept, but written in compact form.
		var c bytes.Buffer
		if err := json.Compact(&c, b); err != nil {
			t.Fatal(err)
		}
		b = c.Bytes()
	}
	return b
}

// samples returns the folder with those samples.
func samples(t testing.TB) string {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "testdata/HEAD")
}

func (k kind) fromJSON(data []byte) (obj engine.Object, strict []error, err error) {
	obj = k.v.New()
	strict, err = kjson.UnmarshalStrict(data, obj)
	return obj, strict, err
}

// throughJSON encodes obj as JSON and decodes it as a client would.
func (k kind) throughJSON(obj engine.Object) (engine.Object, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	out, strict, err := k.fromJSON(data)
	if err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	return out, errors.Join(strict...)
}

var magic = []byte("k8s\x00")

func (k kind) fromProtobuf(data []byte) (engine.Object, error) {
	raw, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return nil, errors.New("no protobuf prefix")
	}
	var u runtime.Unknown
	if err := u.Unmarshal(raw); err != nil {
		return nil, fmt.Errorf("decode the envelope: %w", err)
	}
	if got := schema.FromAPIVersionAndKind(u.APIVersion, u.Kind); got != k.GroupVersionKind {
		return nil, fmt.Errorf("the envelope says %s, want %s", got, k.GroupVersionKind)
	}
	obj := k.v.New()
	if err := obj.(interface{ Unmarshal(data []byte) error }).Unmarshal(u.Raw); err != nil {
		return nil, fmt.Errorf("decode protobuf: %w", err)
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	return obj, nil
}

// throughProtobuf encodes obj as stored or sent protobuf and decodes it.
func (k kind) throughProtobuf(obj engine.Object) (engine.Object, error) {
	raw, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode protobuf: %w", err)
	}
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: k.GroupVersion().String(), Kind: k.Kind}, Raw: raw}
	data, err := u.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode the envelope: %w", err)
	}
	return k.fromProtobuf(append(bytes.Clone(magic), data...))
}

// defaulted returns obj with the version's defaults.
func (k kind) defaulted(obj engine.Object) engine.Object {
	obj = obj.DeepCopyObject().(engine.Object)
	if k.v.Default != nil {
		k.v.Default(obj)
	}
	return obj
}

// served returns obj after a write and a read: defaulted, converted to the hub and back to this version.
func (k kind) served(obj engine.Object) (engine.Object, error) {
	obj = k.defaulted(obj)
	if k.v.ToHub != nil {
		var err error
		if obj, err = k.v.ToHub(context.Background(), obj); err != nil {
			return nil, fmt.Errorf("to the hub: %w", err)
		}
	}
	if k.v != k.hub && k.v.FromHub != nil {
		var err error
		if obj, err = k.v.FromHub(context.Background(), obj); err != nil {
			return nil, fmt.Errorf("from the hub: %w", err)
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	return obj, nil
}

// same returns an error if two objects are not equal in meaning.
func same(what string, got, want engine.Object) error {
	if apiequality.Semantic.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("%s differs:\n%s", what, diff.Diff(want, got))
}

// unchangedByJSON and unchangedByProtobuf return an error if obj changes in a round trip followed by then.
func (k kind) unchangedByJSON(obj engine.Object, then func(engine.Object) engine.Object) error {
	out, err := k.throughJSON(obj)
	if err != nil {
		return err
	}
	return same("after JSON it", then(out), obj)
}

func (k kind) unchangedByProtobuf(obj engine.Object, then func(engine.Object) engine.Object) error {
	out, err := k.throughProtobuf(obj)
	if err != nil {
		return err
	}
	return same("after protobuf it", then(out), obj)
}

func unchanged(obj engine.Object) engine.Object { return obj }

func TestRoundTrip(t *testing.T) {
	dir := samples(t)
	for _, k := range kinds() {
		t.Run(k.GroupVersion().String()+" "+k.Kind, func(t *testing.T) {
			obj, strict, err := k.fromJSON(k.sample(t, dir, "json"))
			if err != nil || len(strict) > 0 {
				t.Fatal(err, strict)
			}
			p, err := k.fromProtobuf(k.sample(t, dir, "pb"))
			if err != nil {
				t.Fatal(err)
			}
			if err := same("the object of the protobuf sample", p, obj); err != nil {
				t.Error(err)
			}
			served, err := k.served(obj)
			if err != nil {
				t.Fatal(err)
			}
			for _, tc := range []struct {
				name string
				obj  engine.Object
				then func(engine.Object) engine.Object
			}{
				{"as it is", obj, unchanged},
				// Defaults are set after decoding stored bytes: protobuf does not contain the type of an object inside
				// an object.
				{"defaulted", k.defaulted(obj), k.defaulted},
				{"served", served, k.defaulted},
			} {
				if err := same("defaulted again it", tc.then(tc.obj), tc.obj); err != nil {
					t.Errorf("%s: %v", tc.name, err)
				}
				if err := errors.Join(k.unchangedByJSON(tc.obj, tc.then), k.unchangedByProtobuf(tc.obj, tc.then)); err != nil {
					t.Errorf("%s: %v", tc.name, err)
				}
			}
		})
	}
}

// TestHoles removes one part at a time from the sample of each kind, or makes it null or empty, so that defaulting and
// conversion meet every possible nil.
func TestHoles(t *testing.T) {
	dir := samples(t)
	for _, k := range kinds() {
		t.Run(k.GroupVersion().String()+" "+k.Kind, func(t *testing.T) {
			t.Parallel()
			var doc map[string]any
			if err := json.Unmarshal(k.sample(t, dir, "json"), &doc); err != nil {
				t.Fatal(err)
			}
			shorten(doc)
			holes(doc, func(path string) {
				data, err := json.Marshal(doc)
				if err != nil {
					t.Fatal(err)
				}
				if err := k.accept(data); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			})
		})
	}
}

// shorten removes what other samples contain: pod templates are tested with PodTemplate, pod specs with Pod.
func shorten(doc map[string]any) {
	delete(doc, "status")
	delete(doc, "metadata")
	spec, _ := doc["spec"].(map[string]any)
	delete(spec, "template")
	delete(spec, "ephemeralContainers")
	if job, ok := spec["jobTemplate"].(map[string]any); ok {
		shorten(job)
	}
	if template, ok := doc["template"].(map[string]any); ok {
		spec := template["spec"].(map[string]any)
		for key, v := range spec {
			if _, ok := v.([]any); ok {
				spec[key] = []any{map[string]any{}}
			}
		}
	}
}

// holes calls f with doc changed in one place, for each place with an object or a list, and each change.
func holes(doc map[string]any, f func(path string)) {
	for key, v := range doc {
		var below []any
		switch v := v.(type) {
		case map[string]any:
			below = []any{nil, map[string]any{}}
			holes(v, func(path string) { f("." + key + path) })
		case []any:
			below = []any{nil, []any{}, []any{nil}, []any{map[string]any{}}}
			for _, e := range v {
				if m, ok := e.(map[string]any); ok {
					holes(m, func(path string) { f("." + key + "[]" + path) })
				}
			}
		default:
			continue
		}
		for _, b := range below {
			doc[key] = b
			s, _ := json.Marshal(b)
			f("." + key + "=" + string(s))
		}
		doc[key] = v
	}
}

// accept handles data as the body of a create, as the server does, and returns an error if the resulting object changes
// in a round trip. Rejected data is no error.
func (k kind) accept(data []byte) error {
	obj, strict, err := k.fromJSON(data)
	if err != nil || len(strict) > 0 {
		return nil
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	if _, err := k.served(obj); err != nil {
		return nil
	}
	// JSON input may contain what the server never sends: fractions of seconds.
	obj, err = k.throughJSON(k.defaulted(obj))
	if err != nil {
		return err
	}
	return errors.Join(k.unchangedByProtobuf(k.defaulted(obj), k.defaulted), k.completeIsServed(obj))
}

// FuzzRoundTrip passes everything that decodes through defaulting, conversion and protobuf.
func FuzzRoundTrip(f *testing.F) {
	ks := kinds()
	dir := samples(f)
	for n, k := range ks {
		f.Add(uint8(n), []byte(`{}`))
		f.Add(uint8(n), []byte(`{"metadata":{"name":"a"},"spec":{},"status":{}}`))
		if k.sampled() {
			f.Add(uint8(n), k.sample(f, dir, "json"))
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		k := ks[int(n)%len(ks)]
		if err := k.accept(data); err != nil {
			t.Errorf("%s: %v", k.GroupVersionKind, err)
		}
	})
}
