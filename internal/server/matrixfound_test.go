package server_test

import (
	"strings"
	"testing"
)

// What the matrix of rights and routes has found in many requests beside kube-apiserver: its answers, asked one by one.
func TestFoundByTheMatrix(t *testing.T) {
	t.Parallel()
	admin := withCustom(t).Config().Transport
	const foos, bars, watched = "/apis/example.com/v1/namespaces/ns1/foos", "/apis/example.com/v1/bars", "/apis/admissionregistration.k8s.io/v1/watch/validatingwebhookconfigurations"
	const manifest = `{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"a","deletionTimestamp":"2020-01-01T00:00:00Z"},"spec":{"replicas":1}}`
	for _, c := range []struct {
		method, path, contentType, body string
		code                            int
		says, never                     string
	}{
		// Nobody makes an object that is being deleted.
		{"PATCH", foos + "/a?fieldManager=m", "application/apply-patch+yaml", manifest, 201, `"name":"a"`, `"deletionTimestamp":`},
		{"POST", foos, "application/json", strings.Replace(manifest, `"a"`, `"b"`, 1), 201, `"name":"b"`, `"deletionTimestamp":`},
		{"PATCH", foos, "application/merge-patch+json", `{}`, 400, "name must be provided", ""},
		{"PATCH", foos, "application/strategic-merge-patch+json", `{}`, 415, "unknown format", ""},
		{"PUT", foos, "application/json", `{}`, 400, "name must be provided", ""},
		{"PATCH", bars, "application/merge-patch+json", `{}`, 400, "name must be provided", ""},
		{"PATCH", "/api/v1/namespaces/ns1/configmaps", "application/merge-patch+json", `{}`, 405, "", ""},
		// A patch of a custom resource's scale may say any UID, an update may not.
		{"PATCH", foos + "/a/scale", "application/json-patch+json", `[{"op":"replace","path":"/metadata/uid","value":"x"}]`, 200, "", ""},
		{"PUT", foos + "/a/scale", "application/json", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","uid":"x"},"spec":{"replicas":2}}`, 409, "Precondition failed", ""},
		// A scale's labels are not stored, and not looked at.
		{"POST", "/api/v1/namespaces/ns1/replicationcontrollers", "application/json", `{"metadata":{"name":"a"},"spec":{"selector":{"x":"y"},"template":{"metadata":{"labels":{"x":"y"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, 201, "", ""},
		{"PATCH", "/api/v1/namespaces/ns1/replicationcontrollers/a/scale", "application/strategic-merge-patch+json", `{"metadata":{"labels":{"app":"not ok"}}}`, 200, "", ""},
		// A watch by its path has the options of a list.
		{"GET", watched + "?continue=garbage&timeoutSeconds=1", "", "", 200, "", ""},
		{"GET", "/.well-known/openid-configuration/", "", "", 200, "", ""},
		{"GET", "/openid/v1/jwks/", "", "", 200, "", ""},
	} {
		code, body := ask(t, admin, c.method, c.path, c.contentType, c.body)
		if code != c.code || !strings.Contains(body, c.says) || c.never != "" && strings.Contains(body, c.never) {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
}
