package test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

// Which resources have tables and which do not is said as on kube-apiserver, whatever else is wrong with a request for one.
func TestTables(t *testing.T) {
	t.Parallel()
	flags := []string{"--runtime-config=api/all=true"}
	want := peer.NewRecorded[[]string](t, "tables").Answer(strings.Join(flags, " "), func() []string { return withoutTables(t, peer.Start(t, flags...)) })
	got := withoutTables(t, kanzentest.Start(t, withoutAdditions(flags...)).Config())
	for _, only := range []struct {
		what  string
		in, i []string
	}{{"kanzen has a table", got, want}, {"kanzen has no table", want, got}} {
		for _, request := range only.i {
			if !slices.Contains(only.in, request) {
				t.Errorf("%s, other than kube-apiserver: %s", only.what, request)
			}
		}
	}
}

// withoutTables asks for a table by each verb of each resource, and returns the requests whose answer is that there is none, or is no table.
func withoutTables(t *testing.T, c *rest.Config) (out []string) {
	t.Helper()
	c = rest.CopyConfig(c)
	c.WarningHandler = rest.NoWarnings{}
	client := kubernetes.NewForConfigOrDie(c)
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string]string{"create": "POST", "update": "PUT", "patch": "PATCH", "get": "GET", "list": "GET", "delete": "DELETE", "deletecollection": "DELETE"}
	for _, list := range lists {
		for _, r := range list.APIResources {
			resource, sub, isSub := strings.Cut(r.Name, "/")
			if slices.Contains([]string{"proxy", "exec", "attach", "portforward", "log"}, sub) {
				continue
			}
			for _, verb := range r.Verbs {
				method := methods[verb]
				if method == "" {
					continue
				}
				path := pathOf(list, &r, resource)
				if isSub {
					path += "/none/" + sub
				} else if slices.Contains([]string{"update", "patch", "get", "delete"}, verb) {
					path += "/none"
				}
				request := client.RESTClient().Verb(method).AbsPath(path).Param("dryRun", "All").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
				switch method {
				case "PATCH":
					request.SetHeader("Content-Type", "application/merge-patch+json").Body([]byte("{}"))
				case "POST", "PUT":
					request.SetHeader("Content-Type", "application/json").Body([]byte("{}"))
				}
				code := 0
				answer := request.Do(t.Context()).StatusCode(&code)
				body, _ := answer.Raw()
				if code == http.StatusNotAcceptable || code == http.StatusOK && !bytes.Contains(body, []byte(`"kind":"Table"`)) {
					out = append(out, fmt.Sprint(code, " ", verb, " ", path))
				}
			}
		}
	}
	return out
}

// pathOf is that of a resource's collection, of those in namespaces in default.
func pathOf(list *metav1.APIResourceList, r *metav1.APIResource, resource string) string {
	path := "/apis/" + list.GroupVersion
	if list.GroupVersion == "v1" {
		path = "/api/v1"
	}
	if r.Namespaced {
		path += "/namespaces/default"
	}
	return path + "/" + resource
}
