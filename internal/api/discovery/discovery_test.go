package discovery

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
)

const aggregatedType = jsonType + aggregatedParams

var addresses = []metav1.ServerAddressByClientCIDR{
	{ClientCIDR: "0.0.0.0/0", ServerAddress: "192.0.2.2:6443"},
	{ClientCIDR: "10.0.0.0/24", ServerAddress: "10.0.0.1:443"},
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

// builtinResources returns Resources with the discovery information in testdata/resources.json.
func builtinResources(t *testing.T) []*engine.Resource {
	var lists map[string][]metav1.APIResource
	readJSON(t, "resources.json", &lists)
	byKind := map[string]*engine.Resource{}
	var all []*engine.Resource
	for name, list := range lists {
		gv, err := schema.ParseGroupVersion(name)
		if err != nil {
			t.Fatal(err)
		}
		// By name, so that a resource comes before its subresources.
		for _, r := range list {
			if plural, sub, ok := strings.Cut(r.Name, "/"); ok {
				kind := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
				main := byKind[gv.Group+"/"+plural]
				if main.Versions[0].GroupVersion == gv { // said once for all versions
					main.Subresources = append(main.Subresources, &engine.Subresource{Name: sub, Verbs: r.Verbs, Kind: kind})
				}
				continue
			}
			key := gv.Group + "/" + r.Name
			if known := byKind[key]; known != nil {
				known.Versions = append(known.Versions, &engine.Version{GroupVersion: gv})
				continue
			}
			res := &engine.Resource{
				Plural: r.Name, Singular: r.SingularName, Kind: r.Kind, Namespaced: r.Namespaced, Verbs: r.Verbs,
				ShortNames: r.ShortNames, Categories: r.Categories, Hub: gv,
				Versions: []*engine.Version{{GroupVersion: gv}},
			}
			switch {
			case r.Kind == "HorizontalPodAutoscaler":
				res.Hub.Version = "v2"
			case r.Kind == "Event":
				res.Hub.Group = ""
			case r.Kind == "DeviceTaintRule":
				res.Hub.Version = "v1beta2"
			case slices.Contains([]string{"StorageVersionMigration", "ClusterTrustBundle", "PodCertificateRequest"}, r.Kind):
				res.Hub.Version = "v1beta1"
			}
			if r.StorageVersionHash != "" {
				res.Prefix = r.Name
			}
			byKind[key] = res
			all = append(all, res)
		}
	}
	return all
}

func ask(t *testing.T, s *Set, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	found, err := s.Serve(w, r)
	switch {
	case !found:
		w.WriteHeader(http.StatusNotFound)
	case err != nil:
		status := err.(apierrors.APIStatus).Status()
		w.Header().Set("X-Reason", string(status.Reason))
		w.WriteHeader(int(status.Code))
	}
	return w
}

// same compares a document with the expected one.
func same(t *testing.T, what string, got []byte, want any) {
	t.Helper()
	var g any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Errorf("%s: %v in %s", what, err, got)
		return
	}
	b, _ := json.Marshal(want)
	var w any
	_ = json.Unmarshal(b, &w)
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s:\n got %s\nwant %s", what, got, b)
	}
}

func TestBuiltinDocuments(t *testing.T) {
	s := New(addresses, Builtin(builtinResources(t)))
	for path, file := range map[string]string{"/api": "discovery-api.json", "/apis": "discovery-apis.json"} {
		var want any
		readJSON(t, file, &want)
		same(t, path, ask(t, s, "GET", path, "Accept", aggregatedType).Body.Bytes(), want)
	}
	var groups any
	readJSON(t, "discovery-apis-unaggregated.json", &groups)
	same(t, "/apis", ask(t, s, "GET", "/apis").Body.Bytes(), groups)
	same(t, "/apis/", ask(t, s, "GET", "/apis/").Body.Bytes(), groups)

	var lists map[string][]metav1.APIResource
	readJSON(t, "resources.json", &lists)
	for gv, list := range lists {
		path, apiVersion := "/apis/"+gv, "v1"
		if gv == "v1" {
			path, apiVersion = "/api/v1", ""
		}
		want := metav1.APIResourceList{GroupVersion: gv, APIResources: list}
		want.Kind, want.APIVersion = "APIResourceList", apiVersion
		same(t, path, ask(t, s, "GET", path).Body.Bytes(), want)
	}
	same(t, "/apis/autoscaling", ask(t, s, "GET", "/apis/autoscaling").Body.Bytes(), map[string]any{
		"kind": "APIGroup", "apiVersion": "v1", "name": "autoscaling",
		"versions": []any{
			map[string]any{"groupVersion": "autoscaling/v2", "version": "v2"},
			map[string]any{"groupVersion": "autoscaling/v1", "version": "v1"},
		},
		"preferredVersion": map[string]any{"groupVersion": "autoscaling/v2", "version": "v2"},
	})
}

// TestAggregatedBytes compares the hash with kube-apiserver's for the same list, so each byte must be the same,
// including the order.
func TestAggregatedBytes(t *testing.T) {
	s := New(addresses, Builtin(builtinResources(t)))
	l := aggregate(s.order)
	l.TypeMeta = metav1.TypeMeta{}
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	const want = "C1F1010597FE58AB064229356A99E46C1A393186FA4A195FB7F52CC9716570130AA2FD3A1637DC37D5C215C4A3A6022B5C46487215FF916DE5BA1DD781D395AE"
	if got := fmt.Sprintf("%X", sha512.Sum512(b)); got != want {
		t.Errorf("hash %s", got)
	}
}

func TestServe(t *testing.T) {
	custom := engine.Resource{Plural: "cogs", Kind: "Cog", Hub: schema.GroupVersion{Group: "example.test", Version: "v1"}}
	gvs := append(Builtin(builtinResources(t)), GroupVersion{
		GroupVersion: custom.Hub, GroupPriority: CustomGroupPriority, VersionPriority: CustomVersionPriority, Custom: true,
		Resources: func() []*engine.Resource { return []*engine.Resource{&custom} },
	}, GroupVersion{
		GroupVersion: schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1beta1"}, GroupPriority: 100, VersionPriority: 100,
		Remote: &apidiscoveryv2.APIVersionDiscovery{Version: "v1beta1", Freshness: apidiscoveryv2.DiscoveryFreshnessStale},
	})
	s := New(addresses, gvs)
	tag := ask(t, s, "GET", "/apis", "Accept", aggregatedType).Header().Get("Etag")
	if len(tag) != 130 {
		t.Fatalf("ETag %s", tag)
	}
	betaType := "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
	for _, c := range []struct {
		method, path string
		send         []string
		code         int
		contentType  string
		reason       string
	}{
		{"GET", "/api", nil, 200, jsonType, ""},
		{"GET", "/api/", nil, 200, jsonType, ""},
		{"GET", "/apis", []string{"Accept", aggregatedType + "," + jsonType}, 200, aggregatedType, ""},
		{"GET", "/apis", []string{"Accept", aggregatedType + ";profile=nopeer"}, 200, aggregatedType, ""},
		{"GET", "/apis", []string{"Accept", betaType + "," + jsonType}, 200, jsonType, ""},
		{"GET", "/apis", []string{"Accept", betaType}, 406, "", "NotAcceptable"},
		{"GET", "/apis", []string{"Accept", yamlType + aggregatedParams}, 200, yamlType + aggregatedParams, ""},
		{"GET", "/apis", []string{"Accept", protobufType + aggregatedParams}, 200, protobufType + aggregatedParams, ""},
		{"GET", "/apis", []string{"Accept", aggregatedType, "If-None-Match", tag}, 304, "", ""},
		{"GET", "/apis", []string{"If-None-Match", tag}, 200, jsonType, ""},
		{"GET", "/apis", []string{"Accept", "application/foo"}, 406, "", "NotAcceptable"},
		{"GET", "/apis", []string{"Accept", "application/json;as=Table;g=meta.k8s.io;v=v1"}, 406, "", "NotAcceptable"},
		{"GET", "/apis", []string{"Accept", "application/json;stream=watch"}, 200, jsonType, ""},
		{"GET", "/apis", []string{"Accept", "application/cbor, */*"}, 200, jsonType, ""},
		{"GET", "/apis/apps/v1", []string{"Accept", aggregatedType}, 406, "", "NotAcceptable"},
		{"GET", "/apis/apps/v1", []string{"Accept", yamlType}, 200, yamlType, ""},
		{"GET", "/apis/apps/v1", []string{"Accept", protobufType}, 200, protobufType, ""},
		{"POST", "/apis", nil, 200, jsonType, ""},
		{"POST", "/apis/apps", nil, 200, jsonType, ""},
		{"HEAD", "/apis/apps/v1", nil, 405, "", "MethodNotAllowed"},
		{"PUT", "/api", []string{"Accept", "application/foo"}, 405, "", "MethodNotAllowed"},
		{"POST", "/api/v1", nil, 405, "", "MethodNotAllowed"},
		{"POST", "/apis/example.test/v1", nil, 200, jsonType, ""},
		{"GET", "/apis/bogus", nil, 404, "", ""},
		{"GET", "/apis/bogus/v1", nil, 404, "", ""},
		{"GET", "/apis/example.test/v2", nil, 404, "", ""},
		{"GET", "/apis/apps/v9", nil, 404, "", "NotFound"},
		{"GET", "/apis/metrics.k8s.io", nil, 200, jsonType, ""},
		{"GET", "/apis/metrics.k8s.io/v1beta1", nil, 404, "", ""},
		{"GET", "/apis/apps/v1/deployments", nil, 404, "", ""},
		{"GET", "/", nil, 404, "", ""},
	} {
		w := ask(t, s, c.method, c.path, c.send...)
		got := []any{w.Code, w.Header().Get("Content-Type"), w.Header().Get("X-Reason")}
		if want := []any{c.code, c.contentType, c.reason}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s %s %q: got %v, want %v", c.method, c.path, c.send, got, want)
		}
	}
	w := ask(t, s, "GET", "/apis", "Accept", aggregatedType)
	if w.Header().Get("Vary") != "Accept" || w.Header().Get("Cache-Control") != "public" {
		t.Errorf("headers %v", w.Header())
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	end := list.Items[len(list.Items)-2:]
	if end[0].Name != "example.test" || end[1].Name != "metrics.k8s.io" || end[1].Versions[0].Freshness != "Stale" {
		t.Errorf("the list ends in %v", end)
	}
	if k := end[0].Versions[0].Resources[0].ResponseKind; k.Group != "example.test" || k.Version != "v1" {
		t.Errorf("kind of a custom resource: %v", k)
	}
}

func TestProtobuf(t *testing.T) {
	s := New(addresses, Builtin(builtinResources(t)))
	var l apidiscoveryv2.APIGroupDiscoveryList
	body := ask(t, s, "GET", "/apis", "Accept", protobufType+aggregatedParams).Body.Bytes()
	if _, err := protobufInto(body, &l); err != nil || len(l.Items) != len(s.order) {
		t.Errorf("%d groups, error %v", len(l.Items), err)
	}
	// Documents of the core group have no apiVersion.
	body = ask(t, s, "GET", "/api/v1", "Accept", protobufType).Body.Bytes()
	if !bytes.HasPrefix(body, []byte("k8s\x00\n\x13\n\x00\x12\x0fAPIResourceList")) {
		t.Errorf("begins with %q", body[:32])
	}
}

func TestPretty(t *testing.T) {
	s := New(addresses, Builtin(builtinResources(t)))
	for _, c := range []struct {
		path, agent string
		pretty      bool
	}{
		{"/apis", "kubectl/v1.36", false},
		{"/apis", "curl/8.0", true},
		{"/apis?pretty=true", "x", true},
		{"/apis?pretty=0", "curl/8.0", false},
	} {
		body := ask(t, s, "GET", c.path, "User-Agent", c.agent).Body.String()
		if got := strings.HasPrefix(body, "{\n  \"kind\""); got != c.pretty {
			t.Errorf("%s for %s: pretty %v", c.path, c.agent, got)
		}
	}
}

func TestServerAddresses(t *testing.T) {
	s := New(addresses, Builtin(builtinResources(t)))
	for client, want := range map[string]int{"192.168.1.1:99": 1, "10.0.0.7:99": 2} {
		r := httptest.NewRequest("GET", "/api", nil)
		r.RemoteAddr = client
		w := httptest.NewRecorder()
		if _, err := s.Serve(w, r); err != nil {
			t.Fatal(err)
		}
		var v metav1.APIVersions
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if len(v.ServerAddressByClientCIDRs) != want || v.APIVersion != "" || v.Versions[0] != "v1" {
			t.Errorf("client %s: %+v", client, v)
		}
	}
}

func protobufInto(body []byte, l *apidiscoveryv2.APIGroupDiscoveryList) (*runtime.Unknown, error) {
	u := &runtime.Unknown{}
	if err := u.Unmarshal(bytes.TrimPrefix(body, []byte("k8s\x00"))); err != nil {
		return nil, err
	}
	return u, l.Unmarshal(u.Raw)
}
