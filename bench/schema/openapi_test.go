package schema

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"

	"github.com/kanzen-io/kanzen/internal/api/catalog"
	"github.com/kanzen-io/kanzen/internal/api/crd/openapi"
	builtin "github.com/kanzen-io/kanzen/internal/api/openapi"
)

// TestOpenAPI compares the documents of the custom resources of real projects.
// Of v2 it compares the schemas, but for defaults, which kube-apiserver leaves
// out later.
func TestOpenAPI(t *testing.T) {
	set, err := builtin.New(time.Unix(0, 0), builtin.Served{})
	if err != nil {
		t.Fatal(err)
	}
	b := openapi.NewBuilder(set)
	for _, project := range projects(t) {
		t.Run(project, func(t *testing.T) {
			for _, k := range kinds(t, project) {
				part := b.Part(k.group, k.version, time.Unix(0, 0), []*catalog.Definition{{
					Hash: func() string { return k.crd.Name }, Load: func() (*apiextensionsv1.CustomResourceDefinition, error) { return k.crd, nil },
				}})
				ours, err := part.Documents[0].JSON()
				if err != nil {
					t.Fatal(err)
				}
				theirs, err := builder.BuildOpenAPIV3(k.crd, k.version, builder.Options{IncludeSelectableFields: true})
				if err != nil {
					t.Fatal(err)
				}
				sameJSON(t, k.name+" v3", ours, encode(theirs))
				f, err := part.V2()
				if err != nil {
					t.Fatal(err)
				}
				old, err := builder.BuildOpenAPIV2(k.crd, k.version, builder.Options{V2: true, IncludeSelectableFields: true})
				if err != nil {
					t.Fatal(err)
				}
				for name, s := range f.Definitions {
					sameJSON(t, k.name+" v2", s, encode(withoutDefaults(decode(encode(old.Definitions[name])))))
				}
			}
		})
	}
}

func sameJSON(t *testing.T, what string, a, b []byte) {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatal(err)
	}
	differ(t, what, x, y)
}

func differ(t *testing.T, at string, ours, theirs any) {
	t.Helper()
	a, isA := ours.(map[string]any)
	b, isB := theirs.(map[string]any)
	if !isA || !isB {
		if !reflect.DeepEqual(ours, theirs) {
			t.Errorf("%s: %.1000s\ntheirs %.1000s", at, encode(ours), encode(theirs))
		}
		return
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			t.Errorf("%s: only ours has %s", at, name)
			continue
		}
		differ(t, at+"/"+name, a[name], b[name])
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			t.Errorf("%s: only theirs has %s", at, name)
		}
	}
}

// withoutDefaults removes the defaults from a schema.
func withoutDefaults(schema any) any {
	s, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	delete(s, "default")
	for _, name := range []string{"items", "additionalProperties"} {
		if s[name] != nil {
			s[name] = withoutDefaults(s[name])
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		properties[name] = withoutDefaults(p)
	}
	return s
}
