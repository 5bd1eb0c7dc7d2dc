package schema

import (
	"reflect"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/kanzen-io/kanzen/internal/object/schema"
)

// definition is a CustomResourceDefinition with one version.
func definition(p *props) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "g", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Kind", ListKind: "KindList", Plural: "kinds", Singular: "kind"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: p}}},
	}}
}

func peerType(t testing.TB, crd *apiextensionsv1.CustomResourceDefinition, version string) managedfields.TypeConverter {
	t.Helper()
	doc, err := builder.BuildOpenAPIV3(crd, version, builder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := managedfields.NewTypeConverter(doc.Components.Schemas, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTypes compares the types for field management: which fields an object
// sets, and what comes of merging another one into it.
func TestTypes(t *testing.T) {
	end := time.Now().Add(*length)
	objects := 0
	for n := uint64(0); time.Now().Before(end) && !t.Failed(); n++ {
		r := newRandom(*seed, n)
		p := r.root()
		if _, err := newPeer(p); err != nil {
			continue
		}
		theirs := peerType(t, definition(p), "v1")
		ours, err := schema.Compile(p, schema.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 6 {
			objects++
			a := cloneObject(r.resource(p, 3))
			b, _ := clone(r.changed(p, a, 10)).(map[string]any)
			if b == nil {
				continue
			}
			b["apiVersion"], b["kind"] = a["apiVersion"], a["kind"]
			compareTypes(t, p, ours, theirs, a, b)
		}
	}
	t.Log(objects, "objects")
}

func compareTypes(t *testing.T, p *props, ours *schema.Schema, theirs managedfields.TypeConverter, a, b map[string]any) {
	t.Helper()
	typedBy := func(obj map[string]any) (x, y *typed.TypedValue) {
		if obj == nil {
			return nil, nil
		}
		x, errX := ours.Type().FromUnstructured(obj)
		y, errY := theirs.ObjectToTyped(&unstructured.Unstructured{Object: obj})
		if (errX == nil) != (errY == nil) {
			t.Errorf("%v, theirs %v\n%s\n%s", errX, errY, encode(obj), encode(p))
		}
		if errX != nil || errY != nil {
			return nil, nil
		}
		setX, errX := x.ToFieldSet()
		setY, errY := y.ToFieldSet()
		if (errX == nil) != (errY == nil) || errX == nil && !setX.Equals(setY) {
			t.Errorf("fields %v\ntheirs %v\n%s\n%s", setX, setY, encode(obj), encode(p))
		}
		return x, y
	}
	ax, ay := typedBy(a)
	bx, by := typedBy(b)
	if ax == nil || bx == nil || t.Failed() {
		return
	}
	mx, errX := ax.Merge(bx)
	my, errY := ay.Merge(by)
	if (errX == nil) != (errY == nil) || errX == nil && !reflect.DeepEqual(mx.AsValue().Unstructured(), my.AsValue().Unstructured()) {
		t.Errorf("merged differently: %s and %s\n%s", encode(a), encode(b), encode(p))
	}
	cx, errX := ax.Compare(bx)
	cy, errY := ay.Compare(by)
	if (errX == nil) != (errY == nil) || errX == nil && cx.String() != cy.String() {
		t.Errorf("compared differently: %s and %s\n%v\n%v\n%s", encode(a), encode(b), cx, cy, encode(p))
	}
}
