package server

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// node is a schema in a document.
type node struct {
	Description string
	Type        string
	Properties  map[string]node
	Items       *node
	AllOf       []map[string]string
	Kinds       []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
	Preserve    bool                      `json:"x-kubernetes-preserve-unknown-fields"`
}

type path map[string]json.RawMessage

// recorded returns the schemas of the flight recorder's kinds and the paths of its resources in a document.
func recorded(t *testing.T, text []byte) (map[string]node, map[string]path) {
	t.Helper()
	var doc struct {
		Paths       map[string]path
		Definitions map[string]node
		Components  struct{ Schemas map[string]node }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]node{}
	for _, in := range []map[string]node{doc.Definitions, doc.Components.Schemas} {
		for _, n := range in {
			if len(n.Kinds) == 1 && n.Kinds[0].Group == v1alpha1.GroupName {
				kinds[n.Kinds[0].Kind] = n
			}
		}
	}
	return kinds, doc.Paths
}

// TestRecorderOpenAPI checks that the documents describe all kinds of the flight recorder with all their fields, and
// just the requests that are served.
func TestRecorderOpenAPI(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	root := "/apis/" + v1alpha1.GroupName + "/v1alpha1"
	var served metav1.APIResourceList
	if err := json.Unmarshal(do(t, s, "GET", root, "", "", nil, 200), &served); err != nil {
		t.Fatal(err)
	}
	if len(served.APIResources) < 12 {
		t.Fatalf("only %d resources", len(served.APIResources))
	}
	v3Kinds, v3Paths := recorded(t, do(t, s, "GET", "/openapi/v3"+root, "", "application/json", nil, 200))
	v2Kinds, v2Paths := recorded(t, do(t, s, "GET", "/openapi/v2", "", "application/json", nil, 200))
	for _, r := range served.APIResources {
		for version, doc := range map[string]struct {
			kinds map[string]node
			paths map[string]path
		}{"v3": {v3Kinds, v3Paths}, "v2": {v2Kinds, v2Paths}} {
			kind := doc.kinds[r.Kind]
			undescribed(t, version+" "+r.Kind, kind)
			if _, ok := doc.kinds[r.Kind+"List"]; !ok {
				t.Errorf("%s has no %sList", version, r.Kind)
			}
			covers(t, version+" "+r.Kind, kind, filled(t, r.Kind))
			all, one := doc.paths[root+"/"+r.Name], doc.paths[root+"/"+r.Name+"/{name}"]
			for verb, served := range map[string]bool{"list": all["get"] != nil, "create": all["post"] != nil, "deletecollection": all["delete"] != nil,
				"get": one["get"] != nil, "update": one["put"] != nil, "patch": one["patch"] != nil, "delete": one["delete"] != nil} {
				if served != slices.Contains(r.Verbs, verb) {
					t.Errorf("%s: %s %s is described: %t, served: %v", version, verb, r.Name, served, r.Verbs)
				}
			}
			if all == nil || one != nil && len(one) < 2 {
				t.Errorf("%s: the paths of %s are %v and %v", version, r.Name, all, one)
			}
			if slices.Contains(r.Verbs, "list") { // what is really there
				var list struct{ Items []any }
				if err := json.Unmarshal(do(t, s, "GET", root+"/"+r.Name, "", "", nil, 200), &list); err != nil {
					t.Fatal(err)
				}
				for _, item := range list.Items {
					covers(t, version+" "+r.Kind, kind, item)
				}
			}
		}
	}
}

// undescribed reports fields without a description.
func undescribed(t *testing.T, at string, n node) {
	t.Helper()
	if n.Description == "" {
		t.Errorf("%s has no description", at)
	}
	for name, p := range n.Properties {
		undescribed(t, at+"."+name, p)
	}
	if n.Items != nil {
		for name, p := range n.Items.Properties {
			undescribed(t, at+"."+name, p)
		}
	}
}

// covers reports fields of a value that are not in its schema.
func covers(t *testing.T, at string, n node, value any) {
	t.Helper()
	switch value := value.(type) {
	case map[string]any:
		if len(n.Properties) == 0 && len(n.AllOf) == 0 && !strings.HasSuffix(at, ".metadata") && !strings.HasSuffix(at, ".extra") {
			t.Errorf("%s has no fields", at)
		}
		for name, v := range value {
			p, ok := n.Properties[name]
			switch {
			case ok:
				covers(t, at+"."+name, p, v)
			case len(n.Properties) > 0:
				t.Errorf("%s has no field %s", at, name)
			}
		}
	case []any:
		if n.Type != "array" || n.Items == nil {
			t.Errorf("%s is no list", at)
			return
		}
		for _, v := range value {
			covers(t, at, *n.Items, v)
		}
	}
}

// filled returns an object of a kind in which every field is set.
func filled(t *testing.T, kind string) any {
	t.Helper()
	for _, obj := range []runtime.Object{&v1alpha1.Request{}, &v1alpha1.Watch{}, &v1alpha1.WebhookStat{}, &v1alpha1.DeprecatedUse{}, &v1alpha1.Finding{}, &v1alpha1.ObjectHistory{},
		&v1alpha1.AccessExplanation{}, &v1alpha1.TrafficStat{}, &v1alpha1.TimeSeries{}, &v1alpha1.View{}, &v1alpha1.Controller{}, &v1alpha1.Datastore{}, &v1alpha1.PriorityLevel{}, &v1alpha1.Definition{}} {
		if reflect.TypeOf(obj).Elem().Name() != kind {
			continue
		}
		randfill.NewWithSeed(1).NilChance(0).NumElements(1, 2).Fill(obj)
		obj.(metav1.Object).SetManagedFields(nil) // a strange text is no managed field
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatal(err)
		}
		delete(out, "metadata")
		return out
	}
	t.Fatalf("no type for %s", kind)
	return nil
}
