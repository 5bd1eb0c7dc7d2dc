package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

// granted gives a user rules in a namespace.
func granted(t testing.TB, s *server, who, ns, rules string) {
	t.Helper()
	do(t, s, "POST", rbacPath+"namespaces/"+ns+"/roles", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":%q},"rules":[%s]}`, who, rules), 201)
	do(t, s, "POST", rbacPath+"namespaces/"+ns+"/rolebindings", "application/json", "", fmt.Appendf(nil,
		`{"metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":%[1]q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%[1]q}]}`, who), 201)
}

// answers asks as a user and returns the code and the names in a list, or the message.
func answers(s *server, who, method, path string) string {
	q := httptest.NewRequest(method, path, nil)
	q = q.WithContext(inprocess.WithUser(q.Context(), named(who)))
	if who == "admin" {
		q = q.WithContext(inprocess.WithUser(q.Context(), masters))
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, q)
	text := w.Body.String()
	if w.Code != http.StatusOK {
		_, text, _ = strings.Cut(text, `"message":"`)
		text, _, _ = strings.Cut(text, `","`)
		return fmt.Sprint(w.Code, " ", text)
	}
	out := "200"
	for _, part := range strings.Split(text, `{"metadata":{"name":"`)[1:] {
		name, rest, _ := strings.Cut(part, `"`)
		_, ns, _ := strings.Cut(rest, `"namespace":"`)
		ns, _, _ = strings.Cut(ns, `"`)
		out += " " + strings.TrimPrefix(ns+"/"+name, "/")
	}
	return out
}

// narrowable has configmaps in three namespaces, and a user who may list them in two.
func narrowable(t testing.TB, s *server) {
	for n, team := range []string{"red", "blue", "red"} {
		ns := fmt.Sprint("n", n)
		do(t, s, "POST", "/api/v1/namespaces", "application/json", "", fmt.Appendf(nil, `{"metadata":{"name":%q,"labels":{"team":%q}}}`, ns, team), 201)
		do(t, s, "POST", "/api/v1/namespaces/"+ns+"/configmaps", "application/json", "", []byte(`{"metadata":{"name":"a"}}`), 201)
		do(t, s, "POST", "/api/v1/namespaces/"+ns+"/configmaps", "application/json", "", []byte(`{"metadata":{"name":"b"}}`), 201)
	}
	lists := `{"apiGroups":["","flightrecorder.kanzen.io","extensions.test"],"resources":["configmaps","namespaces"],"verbs":["list","watch"]}`
	granted(t, s, "ann", "n0", lists)
	granted(t, s, "ann", "n1", lists)
	granted(t, s, "bob", "n2", `{"apiGroups":[""],"resources":["configmaps"],"resourceNames":["b"],"verbs":["list"]}`)
	if err := s.base.objects.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNarrowedLists(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	narrowable(t, s)
	const maps, forbidden = "/api/v1/configmaps", `403 configmaps is forbidden: User \"%s\" cannot list resource \"configmaps\" in API group \"\" `
	of := func(who, where string) string { return fmt.Sprintf(forbidden, who) + where }
	if text := string(do(t, s, "GET", "/openapi/v3", "", "", nil, 200)); !strings.Contains(text, `"x-kanzen-extensions":["bundles","fields",`) {
		t.Error("the index of OpenAPI documents does not name the extensions")
	}
	cluster, inN2 := "at the cluster scope", `in the namespace \"n2\"`
	for _, q := range []struct{ who, method, path, want string }{
		{"ann", "GET", maps, of("ann", cluster)},
		{"ann", "GET", maps + "?visible=false", of("ann", cluster)},
		{"ann", "GET", maps + "?visible=true", "200 n0/a n0/b n1/a n1/b"},
		{"ann", "GET", maps + "?visible=true&limit=3", "200 n0/a n0/b n1/a"},
		{"ann", "GET", maps + "?visible=true&fieldSelector=metadata.name%3Da", "200 n0/a n1/a"},
		{"ann", "GET", maps + "?visible=true&namespaceSelector=team%3Dred", "200 n0/a n0/b"},
		{"ann", "GET", maps + "?namespaceSelector=team%3Dred", of("ann", cluster)},
		{"ann", "GET", maps + "?namespaces=n1,n0,n1", "200 n0/a n0/b n1/a n1/b"},
		{"ann", "GET", maps + "?namespaces=n1,n2", of("ann", inN2)},
		{"ann", "GET", maps + "?namespaces=n1,n2&visible=true", "200 n1/a n1/b"},
		{"ann", "GET", maps + "?namespaces=n1,n0&namespaceSelector=team%3Dblue", "200 n1/a n1/b"},
		{"ann", "GET", "/api/v1/namespaces?visible=true", "200 n0 n1"},
		{"ann", "GET", "/api/v1/namespaces/n2/configmaps?visible=true", "200"},
		{"ann", "GET", "/api/v1/secrets?visible=true", "200"},
		{"ann", "GET", "/api/v1/nodes?visible=true", "200"},
		{"bob", "GET", maps + "?visible=true", "200 n2/b"},
		{"bob", "GET", "/api/v1/namespaces/n2/configmaps?visible=true", "200 n2/b"},
		{"bob", "GET", maps + "?namespaces=n2", of("bob", inN2)},
		{"admin", "GET", maps + "?namespaces=n2,none", "200 n2/a n2/b"},
		{"admin", "GET", maps + "?namespaceSelector=team+in+(blue),team", "200 n1/a n1/b"},
		{"admin", "GET", maps + "?namespaces=n1&visible=true", "200 n1/a n1/b"},
		// What is wrong is said.
		{"admin", "GET", maps + "?visible=yes", `400 visible: \"yes\" is neither true nor false`},
		{"admin", "GET", maps + "?namespaces=N", `400 namespaces: \"N\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`},
		{"admin", "GET", "/api/v1/namespaces/n0/configmaps?namespaces=n1", "400 namespaces, namespaceSelector: the path names a namespace already"},
		{"admin", "GET", "/api/v1/nodes?namespaceSelector=a", "400 namespaces, namespaceSelector: nodes are in no namespace"},
		{"admin", "DELETE", "/api/v1/namespaces/n0/configmaps?visible=true", "400 visible, namespaces and namespaceSelector are for lists and watches"},
		// What does not narrow refuses.
		{"ann", "DELETE", "/api/v1/namespaces/n0/configmaps?visible=true", `403 configmaps is forbidden: User \"ann\" cannot deletecollection resource \"configmaps\" in API group \"\" in the namespace \"n0\"`},
		{"ann", "GET", "/api/v1/namespaces/n0/configmaps/a?visible=true", `403 configmaps \"a\" is forbidden: User \"ann\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"n0\"`},
		{"ann", "GET", "/api/v1/componentstatuses?visible=true", `403 componentstatuses is forbidden: User \"ann\" cannot list resource \"componentstatuses\" in API group \"\" at the cluster scope`},
		{"ann", "GET", "/apis/flightrecorder.kanzen.io/v1alpha1/requests?visible=true", `403 requests.flightrecorder.kanzen.io is forbidden: User \"ann\" cannot list resource \"requests\" in API group \"flightrecorder.kanzen.io\" at the cluster scope`},
		{"ann", "GET", "/apis/extensions.test/v1/configmaps?visible=true", `403 configmaps.extensions.test is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"extensions.test\" at the cluster scope`},
		{"ann", "GET", "/api/v1/nowhere?visible=true&watch=1", `403 nowhere is forbidden: User \"ann\" cannot watch resource \"nowhere\" in API group \"\" at the cluster scope`},
	} {
		if got := answers(s, q.who, q.method, q.path); got != q.want {
			t.Errorf("%s %s %s:\n got %s\nwant %s", q.who, q.method, q.path, got, q.want)
		}
	}
}

// TestExtensionsOff has the parameters ignored, as kube-apiserver ignores them.
func TestExtensionsOff(t *testing.T) {
	s := startWith(t, func(c *config.Config) { c.ExtensionNames = nil })
	narrowable(t, s)
	if text := string(do(t, s, "GET", "/openapi/v3", "", "", nil, 200)); strings.Contains(text, "kanzen-extensions") {
		t.Error("the index of OpenAPI documents names extensions")
	}
	all := "200 n0/a n0/b n1/a n1/b n2/a n2/b"
	for _, query := range []string{"visible=no", "namespaces=N&limit=500", "namespaces=n1", "namespaceSelector=team%3Dblue"} {
		for _, who := range []string{"admin", "ann"} {
			want := all
			if who == "ann" {
				want = `403 configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" at the cluster scope`
			}
			if got := answers(s, who, "GET", "/api/v1/configmaps?fieldSelector=metadata.namespace!%3Dkube-system&"+query); got != want {
				t.Errorf("%s: %s", query, got)
			}
		}
	}
}
