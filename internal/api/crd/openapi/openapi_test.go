package openapi

import (
	"compress/gzip"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	builtin "github.com/kanzen-io/kanzen/internal/api/openapi"
)

// recorded is what kube-apiserver publishes for the definitions in testdata/peer.json.gz.
type recorded struct {
	Definitions []*apiextensionsv1.CustomResourceDefinition
	V3          map[string]any // by version
	V2          struct{ Paths, Definitions map[string]any }
}

func readRecorded(t testing.TB) *recorded {
	t.Helper()
	f, err := os.Open("testdata/peer.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := &recorded{}
	if err := json.NewDecoder(r).Decode(out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *recorded) sources(version string) (out []*catalog.Definition) {
	for _, d := range r.Definitions {
		for _, v := range d.Spec.Versions {
			if v.Name == version {
				out = append(out, &catalog.Definition{Hash: func() string { return d.Name }, Load: func() (*apiextensionsv1.CustomResourceDefinition, error) { return d, nil }})
			}
		}
	}
	return out
}

func newBuilder(t testing.TB) *Builder {
	t.Helper()
	set, err := builtin.New(time.Unix(0, 0), builtin.Served{})
	if err != nil {
		t.Fatal(err)
	}
	return NewBuilder(set)
}

// differ reports where two JSON values differ.
func differ(t *testing.T, at string, got, want any) {
	t.Helper()
	a, isA := got.(map[string]any)
	b, isB := want.(map[string]any)
	if !isA || !isB {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", at, got, want)
		}
		return
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			t.Errorf("%s has %s, which is not wanted", at, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			t.Errorf("%s has no %s", at, name)
			continue
		}
		differ(t, at+"/"+name, a[name], b[name])
	}
}

func TestDocuments(t *testing.T) {
	want := readRecorded(t)
	b := newBuilder(t)
	paths, definitions := map[string]any{}, map[string]any{}
	for version, doc := range want.V3 {
		part := b.Part("test.example.com", version, time.Unix(0, 0), want.sources(version))
		text, err := part.Documents[0].JSON()
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		differ(t, version, got, doc)
		f, err := part.V2()
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(paths, decodeAll(t, f.Paths))
		maps.Copy(definitions, decodeAll(t, f.Definitions))
	}
	differ(t, "v2 paths", paths, want.V2.Paths)
	differ(t, "v2 definitions", definitions, want.V2.Definitions)
}

func decodeAll(t *testing.T, texts map[string]json.RawMessage) map[string]any {
	t.Helper()
	out := map[string]any{}
	for name, text := range texts {
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	return out
}

func TestHashesFollowContent(t *testing.T) {
	b := newBuilder(t)
	part := func(hashes ...string) builtin.Part {
		var sources []*catalog.Definition
		for _, h := range hashes {
			sources = append(sources, &catalog.Definition{Hash: func() string { return h }})
		}
		return b.Part("g", "v1", time.Unix(0, 0), sources)
	}
	one := part("a")
	if again := part("a"); again.V2Hash != one.V2Hash || again.Documents[0].Hash != one.Documents[0].Hash {
		t.Error("equal content has other hashes")
	}
	for _, other := range []builtin.Part{part("b"), part("a", "b"), b.Part("g", "v2", time.Unix(0, 0), []*catalog.Definition{{Hash: func() string { return "a" }}})} {
		if other.V2Hash == one.V2Hash || other.Documents[0].Hash == one.Documents[0].Hash {
			t.Error("other content has the same hash")
		}
	}
}

func TestIdentifier(t *testing.T) {
	for _, test := range []struct {
		text    string
		capital bool
		want    string
	}{
		{"test.example.com", true, "TestExampleCom"}, {"test.example.com", false, "testExampleCom"},
		{"sea-creatures.x", true, "SeaCreaturesX"}, {"v1beta1", true, "V1beta1"}, {"3scale", true, "Scale"},
	} {
		if got := identifier(test.text, test.capital); got != test.want {
			t.Errorf("%s: %s, want %s", test.text, got, test.want)
		}
	}
}

// BenchmarkFirst measures the first document, which includes reading the common parts.
func BenchmarkFirst(b *testing.B) {
	want := readRecorded(b)
	for b.Loop() {
		part := newBuilder(b).Part("test.example.com", "v1", time.Unix(0, 0), want.sources("v1"))
		if _, err := part.Documents[0].JSON(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDocument(b *testing.B) {
	want := readRecorded(b)
	part := newBuilder(b).Part("test.example.com", "v1", time.Unix(0, 0), want.sources("v1"))
	if _, err := part.Documents[0].JSON(); err != nil { // reads the common parts
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := part.Documents[0].JSON(); err != nil {
			b.Fatal(err)
		}
	}
}
