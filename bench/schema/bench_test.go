package schema

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/object/schema"
)

// manifests is where manifests of real projects are, or not.
const manifests = "../../../shared/manifests"

// documents returns the documents of a project's files, by file.
func documents(tb testing.TB, project string) map[string][]map[string]any {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(manifests, project, "*.yaml*"))
	if err != nil || len(files) == 0 {
		tb.Skipf("no manifests in %s", manifests)
	}
	out := map[string][]map[string]any{}
	for _, file := range files {
		for _, text := range strings.Split("\n"+string(readFile(tb, file)), "\n---") {
			var doc map[string]any
			if j, err := yaml.YAMLToJSON([]byte(text)); err == nil {
				doc, _ = decode(j).(map[string]any)
			}
			if doc != nil {
				out[file] = append(out[file], doc)
			}
		}
	}
	return out
}

func readFile(tb testing.TB, file string) []byte {
	tb.Helper()
	f, err := os.Open(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			tb.Fatal(err)
		}
	}
	b, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// kind is a version of a custom resource, and some objects of it.
type kind struct {
	group, version, name string
	crd                  *apiextensionsv1.CustomResourceDefinition
	props                *props
	objects              []map[string]any
}

// kinds returns the custom resources of a project.
func kinds(tb testing.TB, project string) []*kind {
	tb.Helper()
	byName := map[string]*kind{}
	var objects []map[string]any
	for _, docs := range documents(tb, project) {
		for _, doc := range docs {
			if doc["kind"] != "CustomResourceDefinition" {
				objects = append(objects, doc)
				continue
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(encode(doc), crd); err != nil {
				continue // wrong on purpose
			}
			for _, v := range crd.Spec.Versions {
				if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
					k := &kind{group: crd.Spec.Group, version: v.Name, name: crd.Spec.Names.Kind, crd: crd, props: v.Schema.OpenAPIV3Schema}
					byName[k.group+"/"+k.version+" "+k.name] = k
				}
			}
		}
	}
	for _, obj := range objects {
		v, _ := obj["apiVersion"].(string)
		name, _ := obj["kind"].(string)
		if k := byName[v+" "+name]; k != nil {
			k.objects = append(k.objects, obj)
		}
	}
	var out []*kind
	for _, k := range byName {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b *kind) int { return strings.Compare(a.group+a.name+a.version, b.group+b.name+b.version) })
	return out
}

func find(tb testing.TB, project, name, version string) *kind {
	tb.Helper()
	for _, k := range kinds(tb, project) {
		if k.name == name && k.version == version {
			return k
		}
	}
	tb.Fatalf("no %s in %s", name, project)
	return nil
}

var benchmarked = []struct{ project, kind, version string }{
	{"prometheus-operator", "Prometheus", "v1"},
	{"argo-workflows", "Workflow", "v1alpha1"},
	{"kueue", "ClusterQueue", "v1beta1"},
	{"kuberay", "RayCluster", "v1"},
	{"strimzi", "Kafka", "v1"},
	{"istio", "VirtualService", "v1"},
}

func BenchmarkValidateCreate(b *testing.B) {
	each(b, func(b *testing.B, k *kind, obj map[string]any) {
		ours, theirs := both(b, k.props)
		b.Run("kanzen", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ours.ValidateCreate(context.Background(), obj)
			}
		})
		b.Run("peer", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				theirs.create(obj)
			}
		})
	})
}

func BenchmarkValidateUpdate(b *testing.B) {
	each(b, func(b *testing.B, k *kind, obj map[string]any) {
		ours, theirs := both(b, k.props)
		old := cloneObject(obj)
		b.Run("kanzen", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ours.ValidateUpdate(context.Background(), obj, old)
			}
		})
		b.Run("peer", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				theirs.update(context.Background(), obj, old)
			}
		})
	})
}

func BenchmarkCoerceAndDefault(b *testing.B) {
	each(b, func(b *testing.B, k *kind, obj map[string]any) {
		ours, theirs := both(b, k.props)
		b.Run("kanzen", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ours.Coerce(obj, schema.CoerceOptions{ReportUnknown: true}); err != nil {
					b.Fatal(err)
				}
				ours.Default(obj)
			}
		})
		b.Run("peer", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := theirs.coerce(obj, false, true); err != nil {
					b.Fatal(err)
				}
				theirs.defaults(obj)
			}
		})
	})
}

func each(b *testing.B, f func(*testing.B, *kind, map[string]any)) {
	for _, which := range benchmarked {
		b.Run(which.kind, func(b *testing.B) {
			k := find(b, which.project, which.kind, which.version)
			ours, _ := both(b, k.props)
			largest := map[string]any(nil)
			for _, obj := range k.objects {
				obj = cloneObject(obj)
				if _, err := ours.Coerce(obj, schema.CoerceOptions{}); err != nil {
					continue
				}
				ours.Default(obj)
				if len(ours.ValidateCreate(context.Background(), obj).Errors) == 0 && len(encode(obj)) > len(encode(largest)) {
					largest = obj
				}
			}
			if largest == nil {
				b.Skip("no valid object")
			}
			f(b, k, largest)
		})
	}
}

func both(tb testing.TB, p *props) (*schema.Schema, *peer) {
	tb.Helper()
	ours, err := schema.Compile(p, schema.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	theirs, err := newPeer(p)
	if err != nil {
		tb.Fatal(err)
	}
	return ours, theirs
}

// BenchmarkCompile also tells what a compiled schema takes.
func BenchmarkCompile(b *testing.B) {
	for _, which := range benchmarked {
		k := find(b, which.project, which.kind, which.version)
		b.Run(which.kind+"/kanzen", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schema.Compile(k.props, schema.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(encode(k.props))), "JSON-bytes")
			b.ReportMetric(retained(func() any { s, _ := schema.Compile(k.props.DeepCopy(), schema.Options{}); return s }), "retained-bytes")
		})
		b.Run(which.kind+"/peer", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := newPeer(k.props); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(retained(func() any { s, _ := newPeer(k.props.DeepCopy()); return s }), "retained-bytes")
		})
	}
}

// retained says how many bytes of the heap stay in use for each of what f
// makes.
func retained(f func() any) float64 {
	const n = 20
	keep := make([]any, 0, n)
	f()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range n {
		keep = append(keep, f())
	}
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(keep)
	return float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / n
}
