package aggregator_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// defined creates a definition of "things" in a group.
func defined(t *testing.T, s *kanzentest.Server, group string, versions ...string) {
	t.Helper()
	yes := true
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "things." + group}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"}}}
	for n, v := range versions {
		d.Spec.Versions = append(d.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v, Served: true, Storage: n == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &yes}}})
	}
	made(t, s, definitions, d)
}

// apiService returns a stored APIService; nil if there is none.
func apiService(t *testing.T, s *kanzentest.Server, name string) *apiregistrationv1.APIService {
	t.Helper()
	code, body := get(t, s, apiServices+"/"+name)
	if code == http.StatusNotFound {
		return nil
	}
	out := &apiregistrationv1.APIService{}
	if err := json.Unmarshal([]byte(body), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Custom resources have APIServices as long as their definition serves the version. One that is changed or deleted is put
// right.
func TestAPIServicesOfCustomResources(t *testing.T) {
	s := kanzentest.Start(t)
	defined(t, s, "crd.test", "v1", "v2")
	for _, version := range []string{"v1", "v2"} {
		name := version + ".crd.test"
		awaitCondition(t, s, name, "Local")
		a := apiService(t, s, name)
		if a.Spec.GroupPriorityMinimum != 1000 || a.Spec.VersionPriority != 100 || a.Labels["kube-aggregator.kubernetes.io/automanaged"] != "true" {
			t.Errorf("%+v", a)
		}
	}
	old := apiService(t, s, "v1.crd.test")
	remove(t, s, apiServices+"/v1.crd.test")
	eventually(t, "it is created again", func() bool { a := apiService(t, s, "v1.crd.test"); return a != nil && a.UID != old.UID })
	patch(t, s, apiServices+"/v2.crd.test", `{"spec":{"versionPriority":7}}`)
	eventually(t, "it is put right", func() bool { return apiService(t, s, "v2.crd.test").Spec.VersionPriority == 100 })
	remove(t, s, definitions+"/things.crd.test")
	eventually(t, "they are deleted", func() bool {
		return apiService(t, s, "v1.crd.test") == nil && apiService(t, s, "v2.crd.test") == nil
	})
}

// Those of built-in groups are an administrator's to change, until the next start.
func TestAPIServicesOfBuiltinGroups(t *testing.T) {
	dir := t.TempDir()
	t.Run("first start", func(t *testing.T) {
		s := kanzentest.Start(t, kanzentest.DataDir(dir))
		if a := apiService(t, s, "v1.apps"); a.Spec.GroupPriorityMinimum != 17800 || a.Labels["kube-aggregator.kubernetes.io/automanaged"] != "onstart" {
			t.Errorf("%+v", a)
		}
		if apiService(t, s, "v1.apiregistration.k8s.io") != nil {
			t.Error("APIServices have an APIService")
		}
		patch(t, s, apiServices+"/v1.apps", `{"spec":{"groupPriorityMinimum":5}}`)
		patch(t, s, apiServices+"/v1.batch", `{"metadata":{"labels":null},"spec":{"groupPriorityMinimum":5}}`)
		remove(t, s, apiServices+"/v1.policy")
		made(t, s, apiServices, &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1beta1.policy", Labels: map[string]string{"kube-aggregator.kubernetes.io/automanaged": "onstart"}},
			Spec: apiregistrationv1.APIServiceSpec{Group: "policy", Version: "v1beta1", GroupPriorityMinimum: 1, VersionPriority: 1}})
		if a := apiService(t, s, "v1.apps"); a.Spec.GroupPriorityMinimum != 5 {
			t.Errorf("%+v", a)
		}
		for _, check := range []string{"autoregister-completion", "poststarthook/apiservice-registration-controller", "poststarthook/kube-apiserver-autoregistration"} {
			eventually(t, check, func() bool { code, _ := get(t, s, "/readyz/"+check); return code == 200 })
		}
	})
	s := kanzentest.Start(t, kanzentest.DataDir(dir))
	if a := apiService(t, s, "v1.apps"); a.Spec.GroupPriorityMinimum != 17800 {
		t.Errorf("it is not put right: %+v", a)
	}
	if a := apiService(t, s, "v1.batch"); a.Spec.GroupPriorityMinimum != 5 {
		t.Errorf("an administrator's was changed: %+v", a)
	}
	if apiService(t, s, "v1.policy") == nil || apiService(t, s, "v1beta1.policy") != nil {
		t.Error("those of the first start")
	}
}

// A group and version moves from a definition to an extension server and back. What is stored stays.
func TestClaimsMove(t *testing.T) {
	s := kanzentest.Start(t)
	defined(t, s, "moves.test", "v1", "v2")
	awaitCondition(t, s, "v1.moves.test", "Local")
	const things1, things2 = "/apis/moves.test/v1/namespaces/default/things", "/apis/moves.test/v2/namespaces/default/things"
	made(t, s, things1, map[string]any{"apiVersion": "moves.test/v1", "kind": "Thing", "metadata": map[string]any{"name": "stored"}})

	mux := things("moves.test", "v1")
	mux.HandleFunc("/apis/moves.test/v1/namespaces/{ns}/things", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, map[string]any{"kind": "ThingList", "apiVersion": "moves.test/v1", "metadata": map[string]any{}, "items": []any{}, "remote": true})
	})
	e := newExtension(t, s, "moves", mux)
	service, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": nil}, "spec": e.apiService("moves.test", "v1").Spec})
	if err != nil {
		t.Fatal(err)
	}
	patch(t, s, apiServices+"/v1.moves.test", string(service))
	awaitCondition(t, s, "v1.moves.test", "Passed")
	remote := func() bool { _, body := get(t, s, things1); return strings.Contains(body, `"remote":true`) }
	eventually(t, "the extension server is asked", remote)
	if _, body := get(t, s, things2); !strings.Contains(body, `"name":"stored"`) {
		t.Errorf("the other version: %s", body)
	}
	eventually(t, "discovery", func() bool {
		return slices.Equal(aggregated(t, s, "moves.test"), []string{"v2 Current things", "v1 Current things"})
	})

	remove(t, s, apiServices+"/v1.moves.test")
	awaitCondition(t, s, "v1.moves.test", "Local")
	eventually(t, "the definition serves again", func() bool { return !remote() })
	if _, body := get(t, s, things1); !strings.Contains(body, `"name":"stored"`) {
		t.Errorf("what was stored: %s", body)
	}
}

// Nobody can take the API of APIServices away, by which this would be undone.
func TestAPIServicesCannotBeClaimed(t *testing.T) {
	s := kanzentest.Start(t)
	e := newExtension(t, s, "usurper", http.NotFoundHandler())
	e.register(t, s, "apiregistration.k8s.io", "v1")
	awaitCondition(t, s, "v1.apiregistration.k8s.io", "Local")
	remove(t, s, apiServices+"/v1.apiregistration.k8s.io")
}
