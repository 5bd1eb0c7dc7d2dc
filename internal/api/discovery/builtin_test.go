package discovery_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin"
	"github.com/kanzen-io/kanzen/internal/api/discovery"
)

// TestBuiltinResources compares the built-in resources with kube-apiserver's: names, verbs, kinds, hashes of storage
// versions.
func TestBuiltinResources(t *testing.T) {
	s := discovery.New(nil, served())

	var lists map[string][]metav1.APIResource
	read(t, "resources.json", &lists)
	for gv, want := range lists {
		path := "/apis/" + gv
		if gv == "v1" {
			path = "/api/v1"
		}
		var got metav1.APIResourceList
		get(t, s, path, "", &got)
		byName := map[string]metav1.APIResource{}
		for _, r := range got.APIResources {
			byName[r.Name] = r
		}
		for _, w := range want {
			if g := byName[w.Name]; !reflect.DeepEqual(g, w) {
				t.Errorf("%s %s:\n got %+v\nwant %+v", gv, w.Name, g, w)
			}
			delete(byName, w.Name)
		}
		for name := range byName {
			t.Errorf("%s: %s is too many", gv, name)
		}
	}

	for path, file := range map[string]string{"/api": "discovery-api.json", "/apis": "discovery-apis.json"} {
		var got, want apidiscoveryv2.APIGroupDiscoveryList
		read(t, file, &want)
		get(t, s, path, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", &got)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the aggregated document differs", path)
		}
	}
}

// served are the versions that are served by default.
func served() []discovery.GroupVersion {
	var chosen *builtin.Chosen
	return slices.DeleteFunc(discovery.Builtin(builtin.Resources(builtin.Deps{})), func(gv discovery.GroupVersion) bool {
		return !chosen.Serves(gv.WithResource(""))
	})
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s *discovery.Set, path, accept string, into any) {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	if found, err := s.Serve(w, r); !found || err != nil {
		t.Errorf("%s: found %v, error %v", path, found, err)
		return
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		t.Error(err)
	}
}

func TestPaths(t *testing.T) {
	s := discovery.New(nil, served())
	var want metav1.RootPaths
	read(t, "paths.json", &want)
	want.Paths = slices.DeleteFunc(want.Paths, func(p string) bool { return !strings.HasPrefix(p, "/api") })
	paths := s.Paths()
	slices.Sort(paths)
	if !slices.Equal(paths, want.Paths) {
		t.Errorf("got %q\nwant %q", paths, want.Paths)
	}

	w := httptest.NewRecorder()
	if err := discovery.Paths(w, httptest.NewRequest("GET", "/", nil), paths); err != nil {
		t.Fatal(err)
	}
	var got metav1.RootPaths
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !slices.Equal(got.Paths, paths) {
		t.Errorf("served %q, error %v", got.Paths, err)
	}
}
