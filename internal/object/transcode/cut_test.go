package transcode_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/object/apitype"
	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/object/transcode"
)

// TestCutAsJSON cuts the protobuf and the JSON of random objects of all kinds to random fields: both are of the same object.
func TestCutAsJSON(t *testing.T) {
	r := random{rand.New(rand.NewPCG(7, 4))}
	cuts, refused := 0, 0
	for gvk, typ := range kinds() {
		for n := range 12 {
			obj := reflect.New(typ).Interface().(message)
			r.fill(reflect.ValueOf(obj).Elem(), 4+n%6)
			raw, err := obj.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			obj = reflect.New(typ).Interface().(message)
			if err := obj.Unmarshal(raw); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(obj)
			if err != nil {
				continue // a number or time that JSON cannot have
			}
			paths := r.paths(text)
			c, ok := transcode.CompileCut(apitype.Of(typ), paths)
			if !ok {
				refused++
				continue
			}
			cuts++
			cut, err := c.Append([]byte("before"), raw)
			if err != nil {
				t.Fatalf("%s, %q: %v", gvk, paths, err)
			}
			fields := jsonobject.Fields{}
			for _, path := range paths {
				fields.Add(path...)
			}
			only, _ := jsonobject.AppendOnly(nil, text, fields)
			got, want := reflect.New(typ).Interface().(message), reflect.New(typ).Interface()
			if err := got.Unmarshal(cut[len("before"):]); err != nil {
				t.Fatalf("%s, %q: %v", gvk, paths, err)
			}
			if err := json.Unmarshal(only, want); err != nil {
				t.Fatalf("%s, %q: %v in %s", gvk, paths, err, only)
			}
			again := reflect.New(typ).Interface() // JSON has other text for what is no text
			if err := json.Unmarshal([]byte(jsonOf(t, got)), again); err != nil {
				t.Fatal(err)
			}
			if got, want := jsonOf(t, again), jsonOf(t, want); got != want {
				t.Fatalf("%s cut to %q:\n got %s\nwant %s", gvk, paths, got, want)
			}
		}
	}
	if cuts < 1000 || refused > cuts/10 {
		t.Errorf("%d cuts, and %d were refused", cuts, refused)
	}
}

func jsonOf(t *testing.T, obj any) string {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

var plainName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// paths picks fields of a document.
func (r random) paths(text []byte) (paths [][]string) {
	var doc any
	if json.Unmarshal(text, &doc) != nil {
		return nil
	}
	seen := map[string]bool{}
	var walk func(v any, path []string)
	walk = func(v any, path []string) {
		if name := strings.Join(path, "."); len(path) > 0 && !seen[name] && r.IntN(4) == 0 {
			seen[name] = true
			paths = append(paths, append([]string{}, path...))
		}
		switch v := v.(type) {
		case map[string]any:
			for name, below := range v {
				if plainName.MatchString(name) && r.IntN(3) > 0 {
					walk(below, append(path[:len(path):len(path)], name))
				}
			}
		case []any:
			for _, item := range v {
				walk(item, path)
			}
		}
	}
	walk(doc, nil)
	return append(paths, []string{"metadata", "name"})
}

// TestCutRefuses has paths that lead nowhere.
func TestCutRefuses(t *testing.T) {
	typ := apitype.Of(kinds()[podKind])
	for _, path := range []string{"spec.nodename", "metadata.name.x", "metadata.creationTimestamp.time", "spec.containers.resources.limits.cpu.value"} {
		if _, ok := transcode.CompileCut(typ, [][]string{strings.Split(path, ".")}); ok {
			t.Errorf("%s is taken", path)
		}
	}
	for _, path := range []string{"kind", "metadata.labels.app", "spec.containers.resources.limits.cpu", "spec.volumes.emptyDir.medium", "spec.containers.env.valueFrom"} {
		if _, ok := transcode.CompileCut(typ, [][]string{strings.Split(path, ".")}); !ok {
			t.Errorf("%s is not taken", path)
		}
	}
}

// damagedCut cuts damaged bytes of a pod: that fails, or what is left decodes if they do. It tells whether they did.
func damagedCut(t *testing.T, c *transcode.Cut, raw []byte) bool {
	t.Helper()
	cut, err := c.Append(nil, raw)
	if err != nil || new(corev1.Pod).Unmarshal(raw) != nil {
		return false
	}
	if err := new(corev1.Pod).Unmarshal(cut); err != nil {
		t.Errorf("%v of what is left of %x", err, raw)
	}
	return true
}

func someOfPod() *transcode.Cut {
	c, _ := transcode.CompileCut(apitype.Of(kinds()[podKind]), [][]string{{"metadata", "labels", "a"}, {"spec", "containers", "env", "name"}, {"spec", "volumes", "emptyDir", "medium"}})
	return c
}

// TestCutDamaged changes, takes out and doubles random bytes.
func TestCutDamaged(t *testing.T) {
	r, whole, c := rand.New(rand.NewPCG(3, 8)), pod(t), someOfPod()
	decoded, times := 0, 20_000
	for range times {
		raw := slices.Clone(whole)
		for range 1 + r.IntN(4) {
			at := r.IntN(len(raw))
			end := min(len(raw), at+1+r.IntN(8))
			switch r.IntN(4) {
			case 0:
				raw[at] ^= 1 << r.IntN(8)
			case 1:
				raw = slices.Delete(raw, at, end)
			case 2:
				raw = slices.Insert(raw, at, raw[at:end]...)
			case 3:
				raw[at] = byte(r.Uint32())
			}
		}
		if damagedCut(t, c, raw) {
			decoded++
		}
	}
	if decoded < times/20 {
		t.Errorf("only %d of %d could be decoded", decoded, times)
	}
}

// FuzzCut looks for more of them. It keeps its inputs small with -fuzzminimizetime=1x: it has thousands of kinds to count the coverage of.
func FuzzCut(f *testing.F) {
	f.Add(pod(f))
	c := someOfPod()
	f.Fuzz(func(t *testing.T, raw []byte) { damagedCut(t, c, raw) })
}
