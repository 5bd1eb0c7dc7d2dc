package server_test

import (
	"strings"
	"testing"
)

// Custom resources differ from built-in kinds in what requests may leave out and may say: the answers are kube-apiserver's.
func TestNamesOfCustomResources(t *testing.T) {
	t.Parallel()
	s := withCustom(t)
	admin := s.Config().Transport
	const foos = "/apis/example.com/v1/namespaces/ns1/foos"
	if code, body := ask(t, admin, "POST", foos, "application/json", `{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"scaled"},"spec":{"replicas":1}}`); code != 201 {
		t.Fatal(code, body)
	}
	for _, c := range []struct {
		method, path, contentType, body string
		code                            int
		says                            string
	}{
		{"PATCH", foos, "application/merge-patch+json", `{}`, 400, "name must be provided"},
		{"PUT", foos, "application/json", `{}`, 400, "name must be provided"},
		{"PATCH", "/apis/example.com/v1/bars", "application/merge-patch+json", `{}`, 400, "name must be provided"},
		{"PATCH", "/api/v1/namespaces/ns1/configmaps", "application/merge-patch+json", `{}`, 405, ""},
		// A patch of a scale may say any UID, an update may not.
		{"PATCH", foos + "/scaled/scale", "application/json-patch+json", `[{"op":"replace","path":"/metadata/uid","value":"x"}]`, 200, ""},
		{"PUT", foos + "/scaled/scale", "application/json", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"scaled","uid":"x"},"spec":{"replicas":2}}`, 409, "Precondition failed"},
	} {
		code, body := ask(t, admin, c.method, c.path, c.contentType, c.body)
		if code != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
}
