package server

import (
	"strings"
	"testing"
)

// What a client says of the object that it means is asked before anything else that could be wrong, in the words of kube-apiserver. Only the
// subresource looks at a binding's UID. What a subresource answers can be asked for as metadata alone.
func TestMeantByClients(t *testing.T) {
	s := start(t)
	withAccount(t, s)
	do(t, s, "POST", pods, "application/json", "", podJSON(t, "p"), 201)
	const (
		ns      = "/api/v1/namespaces/"
		partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
		limits  = `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"a","uid":"x"},"spec":{"limits":[{"type":"Container"}]}}`
	)
	for _, c := range []struct {
		method, path, accept, body string
		code                       int
		says                       string
	}{
		{"PUT", ns + "default/limitranges/a", "", limits, 409, "Key: /registry/limitranges/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x, UID in object meta: "},
		{"PUT", ns + "default/limitranges/a?dryRun=All", "", limits, 409, "Key: /limitranges/default/a,"},
		{"PUT", ns + "nosuch/limitranges/a", "", limits, 409, "UID in precondition: x"},
		{"POST", pods + "/p/binding", "", `{"metadata":{"name":"p","uid":"x"},"target":{"name":"n"}}`, 409, `cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: x`},
		{"POST", pods + "/p/binding", "", `{"metadata":{"name":"p","resourceVersion":"1"},"target":{"name":"n"}}`, 409, "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: "},
		{"POST", ns + "default/bindings", "", `{"metadata":{"name":"p","uid":"x","resourceVersion":"1"},"target":{"name":"n"}}`, 409, "ResourceVersion in precondition: 1"},
		{"POST", ns + "default/bindings", partial, `{"metadata":{"name":"p","uid":"x"},"target":{"name":"n"}}`, 201, `"status":"Success"`},
		{"POST", ns + "default/serviceaccounts/default/token", partial, `{}`, 201, `"kind":"PartialObjectMetadata"`},
		{"POST", pods + "/p/eviction", partial, `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`, 201, `"status":"Success"`},
	} {
		if answer := string(do(t, s, c.method, c.path, "application/json", c.accept, []byte(c.body), c.code)); !strings.Contains(answer, c.says) {
			t.Errorf("%s %s: %s", c.method, c.path, answer)
		}
	}
}
