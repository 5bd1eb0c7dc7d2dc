package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// authorized makes an account with a token that is bound to a pod, and a role
// by which it may read config maps.
func authorized(t testing.TB, s *server) (token string) {
	t.Helper()
	withAccount(t, s)
	do(t, s, "POST", pods, "application/json", "", podJSON(t, "web"), http.StatusCreated)
	do(t, s, "POST", "/api/v1/namespaces/default/configmaps", "application/json", "",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"v"}}`), http.StatusCreated)
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	do(t, s, "POST", rbac+"roles", "application/json", "", []byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r"},
		"rules":[{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["configmaps"]}]}`), http.StatusCreated)
	do(t, s, "POST", rbac+"rolebindings", "application/json", "", []byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"r"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","namespace":"default","name":"default"}]}`), http.StatusCreated)
	var pod struct {
		Metadata struct{ UID string }
	}
	if err := json.Unmarshal(do(t, s, "GET", pods+"/web", "", "", nil, http.StatusOK), &pod); err != nil {
		t.Fatal(err)
	}
	answer := do(t, s, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", "application/json", "",
		[]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"web","uid":"`+pod.Metadata.UID+`"}}}`), http.StatusCreated)
	var tr authenticationv1.TokenRequest
	if err := json.Unmarshal(answer, &tr); err != nil {
		t.Fatal(err)
	}
	return tr.Status.Token
}

// BenchmarkServiceAccountRequest is a GET of a small object through the whole
// chain, as a service account with a token bound to a pod, authorized by a role
// binding.
func BenchmarkServiceAccountRequest(b *testing.B) {
	s := start(b)
	token := authorized(b, s)
	req := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/configmaps/c", nil)
	b.ReportAllocs()
	for b.Loop() {
		r := req.Clone(req.Context())
		r.Header = http.Header{"Authorization": {"Bearer " + token}, "Accept": {"application/json"}, "User-Agent": {"bench/1"}}
		w := &discard{h: http.Header{}}
		s.handler.ServeHTTP(w, r)
		if w.code != 0 && w.code != http.StatusOK {
			b.Fatal(w.code)
		}
	}
}
