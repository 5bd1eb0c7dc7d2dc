package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

// rehearse carries out items as a dry run with its consequences, as a user.
func rehearse(t *testing.T, s *server, u user.Info, items ...string) *bundlev1.Bundle {
	t.Helper()
	body := strings.Replace(string(bundleOf(t, items...)), `"spec":{`, `"spec":{"consequences":true,`, 1)
	code, answer := send(t, s.Transport(u), http.MethodPost, bundlesPath+"?dryRun=All", "application/json", body)
	if code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	b := &bundlev1.Bundle{}
	if err := json.Unmarshal(answer, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// consequencesOf are the consequences of a bundle, each as "result kind namespace/name".
func consequencesOf(b *bundlev1.Bundle) map[string]bool {
	out := map[string]bool{}
	for _, c := range b.Status.Consequences {
		out[fmt.Sprintf("%s %s %s/%s", c.Result, c.Kind, c.Namespace, c.Name)] = true
	}
	return out
}

// besides says what is missing in got, and what is there besides want.
func besides(got map[string]bool, want []string) (wrong string) {
	for _, w := range want {
		if !got[w] {
			wrong += fmt.Sprintf("no %q\n", w)
		}
		delete(got, w)
	}
	for _, g := range slices.Sorted(maps.Keys(got)) {
		wrong += fmt.Sprintf("besides %q\n", g)
	}
	return wrong
}

// What controllers do after a bundle is told apart from what its items do: dependents that are collected, contents of namespaces,
// objects of new namespaces, aggregated roles, conditions of definitions.
func TestConsequences(t *testing.T) {
	alone(t, testing.Short())
	s := startWith(t, func(c *config.Config) { c.Controllers = []string{"*"} })
	post := func(path, object string) string {
		t.Helper()
		var made struct{ Metadata struct{ UID string } }
		if err := json.Unmarshal(do(t, s, http.MethodPost, path, "application/json", "application/json", []byte(object), http.StatusCreated), &made); err != nil {
			t.Fatal(err)
		}
		return made.Metadata.UID
	}
	post("/api/v1/namespaces", `{"metadata":{"name":"old"}}`)
	uid := post("/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"owner"}}`)
	owned := fmt.Sprintf(`{"metadata":{"name":"owned","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q}]},"stringData":{"a":"b"}}`, uid)
	post("/api/v1/namespaces/default/secrets", owned)
	post("/api/v1/namespaces/old/configmaps", `{"metadata":{"name":"content"}}`)
	items := []string{
		"apply " + teamNamespace, "apply " + teamDefinition,
		`apply {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"more","labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},"rules":[{"apiGroups":["x"],"resources":["y"],"verbs":["get"]}]}`,
		`delete {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owner","namespace":"default"}}`,
		`delete {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"old"}}`,
		`apply {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"orphan","namespace":"default","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"none"}]}}`,
	}
	want := []string{
		"changed CustomResourceDefinition /widgets.team.example.com", "changed ClusterRole /view", "changed ClusterRole /edit", "changed ClusterRole /admin",
		"created ServiceAccount team/default", "created ConfigMap team/kube-root-ca.crt", "deleted Secret default/owned", "deleted Namespace /old",
		"deleted ConfigMap old/content", "deleted ServiceAccount old/default", "deleted ConfigMap old/kube-root-ca.crt", "deleted ConfigMap default/orphan",
	}
	// The server's controllers are at work on its own first objects, and on those above. What they are about to do is no consequence
	// once they have done it.
	var b *bundlev1.Bundle
	wrong := "not asked"
	for end := time.Now().Add(30 * time.Second); wrong != "" && time.Now().Before(end); {
		b = rehearse(t, s, masters, items...)
		wrong = besides(consequencesOf(b), want)
		if b.Status.Hidden > 0 || b.Status.Unsettled || len(b.Status.Others) > 0 {
			wrong += fmt.Sprintf("%d hidden, unsettled: %t, others %v", b.Status.Hidden, b.Status.Unsettled, b.Status.Others)
		}
	}
	if wrong != "" {
		t.Error(wrong)
	}
	for _, path := range []string{"/api/v1/namespaces/default/secrets/owned", "/api/v1/namespaces/old/configmaps/content"} {
		do(t, s, http.MethodGet, path, "", "application/json", nil, http.StatusOK) // nothing of it was done
	}

	// A user is told only of what he may see.
	post("/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"few"},"rules":[{"apiGroups":["bundle.kanzen.io"],"resources":["bundles"],"verbs":["create"]},
		{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","delete"]}]}`)
	post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"few"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"few"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]}`)
	if err := s.base.objects.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	b = rehearse(t, s, &user.DefaultInfo{Name: "eve", Groups: []string{user.AllAuthenticated}}, items[3])
	if got := consequencesOf(b); len(got) > 0 || b.Status.Hidden != 1 {
		t.Errorf("eve sees %v and %d that are hidden", got, b.Status.Hidden)
	}

	// What nobody can finish does not hold up the answer.
	post("/api/v1/namespaces/old/configmaps", `{"metadata":{"name":"held","finalizers":["example.com/never"]}}`)
	if got := consequencesOf(rehearse(t, s, masters, items[4])); got["deleted Namespace /old"] || !got["changed Namespace /old"] || !got["changed ConfigMap old/held"] {
		t.Error(got)
	}
	answer := do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json",
		[]byte(strings.Replace(string(bundleOf(t, items[0])), `"spec":{`, `"spec":{"consequences":true,`, 1)), http.StatusBadRequest)
	if !strings.Contains(string(answer), "spec.consequences") {
		t.Errorf("%s", answer)
	}
}
