package catalog

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
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

func TestReached(t *testing.T) {
	for _, c := range []struct {
		storage  string
		versions []string
		remote   string
		want     string
	}{
		{"v1", []string{"v1", "v1beta1"}, "", "v1"},
		{"v1beta1", []string{"v1", "v1beta1"}, "", "v1beta1"},
		{"v1beta1", []string{"v1"}, "", "v1"}, // stored in a version that is not served
		{"v1", []string{"v1", "v2"}, "v1", "v2"},
		{"v1", []string{"v1"}, "v1", "v1"},
		{"v1", nil, "", "v1"},
	} {
		l := New()
		r := resource("a.io", "bars", "Bar", false, "v1")
		r.Storage, r.Versions = c.storage, c.versions
		l.Begin(r)
		if c.remote != "" {
			l.PutRemotes(&Remote{GroupVersion: schema.GroupVersion{Group: "a.io", Version: c.remote}})
		}
		if got := l.Now().Reached(r); got != c.want {
			t.Errorf("stored in %s, served in %v, %q elsewhere: %s, want %s", c.storage, c.versions, c.remote, got, c.want)
		}
	}
}

// TestResolve adds a resource while a request for it is resolved.
func TestResolve(t *testing.T) {
	l := New()
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}
	l.SettleBy(func(ctx context.Context) error {
		l.Put(resource("example.com", "foos", "Foo", true, "v1"))
		return ctx.Err()
	})
	get := &request.Info{IsResource: true, Path: "/apis/example.com/v1/foos/b", Prefix: "apis", Verb: "get",
		Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Name: "b"}
	if l.Resolve(t.Context(), get).Resource == nil {
		t.Error("what has just come was not waited for")
	}
	l.Remove(gvr.GroupResource())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if l.Resolve(gone, get).Resource != nil {
		t.Error("found although the source did not settle")
	}
}

// TestResolvePaths resolves each kind of path. What is asked for resources and for metrics is the same.
func TestResolvePaths(t *testing.T) {
	l := New()
	l.Begin(resource("", "pods", "Pod", false, "v1"), resource("apps", "deployments", "Deployment", false, "v1"))
	namespaced := resource("example.com", "bars", "Bar", true, "v1")
	namespaced.Namespaced = true
	l.Put(resource("example.com", "foos", "Foo", true, "v1"), namespaced, resource("remote.io", "hidden", "Hidden", true, "v1"))
	l.PutRemotes(&Remote{GroupVersion: schema.GroupVersion{Group: "remote.io", Version: "v1"},
		Discovery: apidiscoveryv2.APIVersionDiscovery{Resources: []apidiscoveryv2.APIResourceDiscovery{{Resource: "things"}}}})
	for path, want := range map[string]string{
		"/api/v1/pods": "pods", "/api/v1/nodes": "", "/api/v2/pods": "", "//api/v1/pods": "", "/apis//v1/pods": "",
		"/apis/apps/v1/namespaces/a/deployments": "deployments", "/apis/apps/v1/deployments/a": "deployments", // the endpoint refuses the scope
		"/apis/example.com/v1/foos": "foos", "/apis/example.com/v2/foos": "", "/apis/example.com/v1/namespaces/a/foos": "",
		"/apis/example.com/v1/bars": "bars", "/apis/example.com/v1/namespaces/a/bars/b": "bars", "/apis/example.com/v1/bars/b": "",
		"/apis/remote.io/v1/things": "remote", "/apis/remote.io/v1/others": "remote, not listed", "/apis/remote.io/v1/hidden": "remote, not listed",
		"/apis/remote.io/v1": "remote, not listed", "/apis/remote.io/v1/": "remote, not listed", "/apis/remote.io": "", "/apis/example.com/v1": "", "/api/v1": "", "/api": "", "/": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "http://kanzen"+path, nil)
		i, err := request.NewInfo(r)
		if err != nil {
			t.Fatal(err)
		}
		got, s := "", l.Resolve(t.Context(), i)
		switch {
		case s.Resource != nil && s.Remote != nil:
			got = "two"
		case s.Resource != nil:
			got = s.Resource.Resource
		case s.Remote != nil && l.Owns(r, i):
			got = "remote"
		case s.Remote != nil:
			got = "remote, not listed"
		}
		if got != want || l.Owns(r, i) != (want != "" && want != "remote, not listed") {
			t.Errorf("%s is served by %q, want %q; owned: %v", path, got, want, l.Owns(r, i))
		}
	}
}
