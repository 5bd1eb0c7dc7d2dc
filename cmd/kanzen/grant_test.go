package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rbacServer is a server that has pods and keeps roles and bindings by their paths. It allows nothing, and refuses what refuse names.
type rbacServer struct {
	mu      sync.Mutex
	objects map[string]map[string]any // guarded by mu
	deleted []string                  // guarded by mu
	refuse  string
}

func (s *rbacServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := func(code int, obj any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(obj)
	}
	path := r.URL.EscapedPath()
	refused := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Message: "refused"}
	switch {
	case path == "/apis":
		answer(200, apidiscoveryv2.APIGroupDiscoveryList{})
	case path == "/api":
		pods := apidiscoveryv2.APIResourceDiscovery{Resource: "pods", Scope: apidiscoveryv2.ScopeNamespace, Verbs: []string{"create", "deletecollection", "get"}, ResponseKind: &metav1.GroupVersionKind{Kind: "Pod"},
			Subresources: []apidiscoveryv2.APISubresourceDiscovery{{Subresource: "exec", Verbs: []string{"create"}}}}
		answer(200, apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{{Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: "v1", Resources: []apidiscoveryv2.APIResourceDiscovery{pods}}}}}})
	case strings.HasSuffix(path, "/accessexplanations"):
		answer(201, map[string]any{"spec": map[string]any{"user": "$(reboot)", "resourceAttributes": map[string]any{"verb": "x"}}})
	case r.Method == http.MethodPost && s.refuse != "" && strings.HasSuffix(path, s.refuse):
		answer(403, refused)
	case r.Method == http.MethodPost:
		var obj map[string]any
		_ = json.NewDecoder(r.Body).Decode(&obj)
		at := path + "/" + obj["metadata"].(map[string]any)["name"].(string)
		if s.objects[at] != nil {
			answer(409, refused)
			return
		}
		s.objects[at] = obj
		answer(201, obj)
	case r.Method == http.MethodDelete:
		s.deleted = append(s.deleted, r.URL.Path)
		answer(200, refused)
	case s.objects[r.URL.Path] != nil:
		answer(200, s.objects[r.URL.Path])
	default:
		answer(404, refused)
	}
}

// TestGrantTwice grants, again and to others of nearly the same name. Nothing that is there is changed, and nothing is said to be granted that is not.
func TestGrantTwice(t *testing.T) {
	s := &rbacServer{objects: map[string]map[string]any{}}
	server := httptest.NewServer(s)
	defer server.Close()
	kubeconfig := kubeconfigOf(t, server.URL)
	const base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	run := func(fails bool, args ...string) string {
		t.Helper()
		text, err := said(t.Context(), append([]string{"grant", "--kubeconfig", kubeconfig, "--yes"}, args...)...)
		if (err != nil) != fails {
			t.Errorf("%q: %v %s", args, err, text)
		}
		return text
	}
	has := func(text string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(text, p) {
				t.Errorf("%q is not in %s", p, text)
			}
		}
	}
	has(run(false, "--as", "dev", "get", "pods"), "created Role grant:dev:get:pods", "created RoleBinding grant:dev:get:pods")
	has(run(false, "--as", "dev", "get", "pods"), "Role grant:dev:get:pods is there already", "RoleBinding grant:dev:get:pods is there already")
	has(run(false, "--as-group", "dev", "get", "pods"), "created Role grant:group:dev:get:pods", "created RoleBinding grant:group:dev:get:pods")
	has(run(false, "--as", "a/b", "get", "pods"), "created Role grant:a:b:get:pods")
	has(run(true, "--as", "a:b", "get", "pods"), "there is a RoleBinding grant:a:b:get:pods already that says something else")
	has(run(false, "--as", "a?b#c d", "get", "pods"), "created Role grant:a?b#c d:get:pods")
	has(run(false, "--as", "a?b#c d", "get", "pods"), "Role grant:a?b#c d:get:pods is there already")

	wider := base + "roles/grant:eve:get:pods"
	s.objects[wider] = map[string]any{"rules": []any{map[string]any{"verbs": []string{"*"}, "apiGroups": []string{""}, "resources": []string{"pods"}}}}
	has(run(true, "--as", "eve", "get", "pods"), "there is a Role grant:eve:get:pods already that says something else")
	grows := "/apis/rbac.authorization.k8s.io/v1/clusterroles/grant:eve:get:pods"
	s.objects[grows] = map[string]any{"rules": []any{map[string]any{"verbs": []string{"get"}, "apiGroups": []string{""}, "resources": []string{"pods"}}}, "aggregationRule": map[string]any{}}
	has(run(true, "--as", "eve", "get", "pods", "-A"), "there is a ClusterRole grant:eve:get:pods already that says something else")

	has(run(true, "--as", "dev", "create", "pods", "a"), "create cannot be granted for one name")
	has(run(true, "--as", "dev", "deletecollection", "pods", "a"), "deletecollection cannot be granted for one name")
	has(run(false, "--as", "dev", "create", "pods/exec", "a"), "created Role grant:dev:create:pods:exec:a")

	s.refuse = "/rolebindings"
	if has(run(true, "--as", "x?y", "get", "pods"), "removed Role grant:x?y:get:pods again"); len(s.deleted) != 1 || s.deleted[0] != base+"roles/grant:x?y:get:pods" {
		t.Errorf("removed: %q", s.deleted)
	}
	if run(true, "--as", "dev", "get", "pods"); len(s.deleted) != 1 {
		t.Errorf("a role that was there was removed: %q", s.deleted)
	}
}

// TestGrantIsAdvised has a shell read the command that explain-access advises, about users and groups with names that a shell would run.
func TestGrantIsAdvised(t *testing.T) {
	server := httptest.NewServer(&rbacServer{})
	defer server.Close()
	kubeconfig := kubeconfigOf(t, server.URL)
	for _, name := range []string{"alice", "$(touch x)", "a;b", "a b", "a'b", `a\b`, "~", "CN=a,OU=b"} {
		for _, flag := range []string{"--as", "--as-group"} {
			text, err := said(t.Context(), "explain-access", "--kubeconfig", kubeconfig, flag, name, "get", "pods", name)
			_, advice, ok := strings.Cut(text, "The least that would allow it: kanzen ")
			if err != nil || !ok {
				t.Fatal(err, text)
			}
			cmd := exec.Command("sh", "-c", `printf '%s\0' `+advice)
			cmd.Dir = t.TempDir()
			out, err := cmd.Output()
			want := strings.Join([]string{"grant", flag, name, "get", "pods", name, "-n", "default", ""}, "\x00")
			if string(out) != want || err != nil {
				t.Errorf("%q: %q, %v", name, out, err)
			}
		}
	}
}
