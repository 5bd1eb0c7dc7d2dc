package catalog

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/store"
)

func resource(group, plural, kind string, custom bool, versions ...string) *Resource {
	return &Resource{
		GroupResource: schema.GroupResource{Group: group, Resource: plural}, Kind: kind, Custom: custom, Listed: true,
		Versions: versions, Storage: versions[0],
		Endpoint:  func(string) (*engine.Endpoint, error) { return nil, errors.New("none") },
		View:      func() *store.View { return nil },
		Described: func(string) *engine.Resource { return &engine.Resource{Plural: plural} },
	}
}

func TestLookup(t *testing.T) {
	l := New()
	l.Begin(resource("", "pods", "Pod", false, "v1"), resource("apps", "deployments", "Deployment", false, "v1"))
	before := l.Now()
	l.Put(resource("example.com", "foos", "Foo", true, "v1", "v2"), resource("example.com", "foolists", "Foo", true, "v2"), resource("a.io", "bars", "Bar", true, "v1"))
	now := l.Now()
	if before.Resource(schema.GroupResource{Group: "a.io", Resource: "bars"}) != nil || before.Changes() == now.Changes() {
		t.Error("a state has changed")
	}
	gvk := schema.GroupVersionKind{Group: "example.com", Kind: "Foo"}
	for version, want := range map[string]int{"v1": 1, "v2": 2, "v3": 0} {
		if got := now.Kind(gvk.GroupKind().WithVersion(version)); len(got) != want {
			t.Errorf("kind Foo in %s: %d resources, want %d", version, len(got), want)
		}
	}
	if now.Version(schema.GroupVersionResource{Group: "example.com", Version: "v3", Resource: "foos"}) != nil {
		t.Error("a version that is not served was found")
	}
	// A definition may change its kind; nothing then serves the old kind.
	l.Put(resource("example.com", "foos", "Other", true, "v1"))
	if got := l.Now().Kind(gvk.GroupKind().WithVersion("v1")); len(got) != 0 {
		t.Errorf("the former kind is still served: %v", got)
	}
	l.Remove(schema.GroupResource{Group: "a.io", Resource: "bars"})
	var all []string
	for r := range l.Now().All() {
		all = append(all, r.String())
	}
	if len(all) != 4 || all[0] != "pods" {
		t.Errorf("all: %v", all)
	}
	var listed []string
	for _, gv := range l.Now().GroupVersions() {
		listed = append(listed, gv.String())
	}
	if len(listed) != 4 || listed[0] != "v1" || listed[1] != "apps/v1" || listed[2] != "example.com/v2" {
		t.Errorf("discovery: %v", listed)
	}
}

// TestFind adds a resource during Find.
func TestFind(t *testing.T) {
	l := New()
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}
	l.SettleBy(func(ctx context.Context) error {
		l.Put(resource("example.com", "foos", "Foo", true, "v1"))
		return ctx.Err()
	})
	if l.Find(t.Context(), gvr) == nil {
		t.Error("what has just come was not waited for")
	}
	l.Remove(gvr.GroupResource())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if l.Find(gone, gvr) != nil {
		t.Error("found although the source did not settle")
	}
}
