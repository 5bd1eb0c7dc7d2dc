package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	forksv1 "github.com/kanzen-io/kanzen/internal/engine/forks/v1"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

const mergesPath = "/apis/fork.kanzen.io/v1/merges"

// mergeFork merges a fork, and returns the answer; nil: it was refused, for the reasons in causes.
func mergeFork(t *testing.T, s *server, name string, force, dryRun bool) (done *forksv1.Merge, causes []metav1.StatusCause) {
	t.Helper()
	path := mergesPath
	if dryRun {
		path += "?dryRun=All"
	}
	code, answer := send(t, s.Transport(masters), http.MethodPost, path, "application/json",
		fmt.Sprintf(`{"apiVersion":"fork.kanzen.io/v1","kind":"Merge","spec":{"fork":%q,"force":%t}}`, name, force))
	if code == http.StatusCreated {
		done = &forksv1.Merge{}
		if err := json.Unmarshal(answer, done); err != nil {
			t.Fatal(err)
		}
		return done, nil
	}
	var status metav1.Status
	if err := json.Unmarshal(answer, &status); err != nil || code != http.StatusConflict || status.Details == nil {
		t.Fatalf("%d %s", code, answer)
	}
	return nil, status.Details.Causes
}

// mergeWorld asks a server with controllers, and forks of it.
type mergeWorld struct {
	t *testing.T
	s *server
}

func (w mergeWorld) ask(u user.Info, method, path, body string) (int, map[string]any) {
	w.t.Helper()
	media := "application/json"
	if method == http.MethodPatch {
		media = "application/merge-patch+json"
	}
	code, answer := send(w.t, w.s.Transport(u), method, path, media, body)
	var o map[string]any
	if err := json.Unmarshal(answer, &o); err != nil {
		w.t.Fatalf("%s %s: %s", method, path, answer)
	}
	return code, o
}

func (w mergeWorld) do(method, path, body string) map[string]any {
	w.t.Helper()
	code, o := w.ask(masters, method, path, body)
	if code >= 300 {
		w.t.Fatalf("%s %s: %d %v", method, path, code, o)
	}
	return o
}

func (w mergeWorld) gone(path string) bool {
	code, _ := w.ask(masters, http.MethodGet, path, "")
	return code == http.StatusNotFound
}

func textAt(o map[string]any, path ...string) string {
	v, _, _ := unstructured.NestedString(o, path...)
	return v
}

// results are what a merge has done, each as "result Kind namespace/name".
func results(m *forksv1.Merge) (out []string) {
	for _, o := range m.Status.Objects {
		out = append(out, fmt.Sprintf("%s %s %s/%s", o.Result, o.Kind, o.Namespace, o.Name))
	}
	return out
}

const coreV1, defaults = "/api/v1", "/api/v1/namespaces/default"

// TestMerge brings back what requests have written in a fork. What follows from it is left to the controllers of the server.
func TestMerge(t *testing.T) {
	w := mergeWorld{t, startWith(t, func(c *config.Config) { c.Controllers = []string{"*"} })}
	configMap := func(name, more string) string { return fmt.Sprintf(`{"metadata":{"name":%q%s}}`, name, more) }
	owned := func(by map[string]any) string {
		return fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}]`, textAt(by, "metadata", "name"), textAt(by, "metadata", "uid"))
	}
	w.do("POST", coreV1+"/namespaces", `{"metadata":{"name":"old"}}`)
	w.do("POST", coreV1+"/namespaces/old/configmaps", configMap("content", ""))
	owner := w.do("POST", defaults+"/configmaps", configMap("owner", ""))
	w.do("POST", defaults+"/configmaps", configMap("owned", owned(owner)))
	keeper := w.do("POST", defaults+"/configmaps", configMap("keeper", ""))
	w.do("POST", defaults+"/configmaps", configMap("kept", owned(keeper)))
	pod := `"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	web := w.do("POST", "/apis/apps/v1/namespaces/default/deployments", `{"metadata":{"name":"web"},"spec":{`+pod+`}}`)

	w.do("POST", "/forks/try", "")
	const fork = "/forks/try"
	w.do("POST", fork+coreV1+"/namespaces", `{"metadata":{"name":"team"}}`)
	w.do("POST", fork+coreV1+"/namespaces/team/configmaps", configMap("a", ""))
	w.do("POST", fork+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", strings.ReplaceAll(boxes, "merge.example.com", "new.example.com"))
	eventually(t, func() bool {
		code, _ := send(t, w.s.Transport(masters), http.MethodGet, fork+strings.ReplaceAll(boxesPath, "merge.", "new."), "", "") // not JSON before it is served
		return code == 200
	})
	w.do("POST", fork+strings.ReplaceAll(boxesPath, "merge.", "new."), `{"apiVersion":"new.example.com/v1","kind":"Box","metadata":{"name":"b"},"spec":{"tags":["x"]}}`)
	taken := textAt(w.do("POST", fork+defaults+"/services", `{"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`), "spec", "clusterIP")
	w.do("DELETE", fork+coreV1+"/namespaces/old", "")
	w.do("DELETE", fork+defaults+"/configmaps/owner", "")
	w.do("DELETE", fork+defaults+"/configmaps/keeper?propagationPolicy=Orphan", "")
	parent := w.do("POST", fork+defaults+"/configmaps", configMap("parent", ""))
	w.do("POST", fork+defaults+"/configmaps", configMap("child", owned(parent)))
	w.do("POST", fork+"/apis/apps/v1/namespaces/default/replicasets", fmt.Sprintf(`{"metadata":{"name":"web-1","ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":%q,"controller":true}]},"spec":{`+pod+`}}`,
		textAt(web, "metadata", "uid")))
	w.do("PATCH", fork+"/apis/apps/v1/namespaces/default/deployments/web/status", `{"status":{"observedGeneration":1}}`)
	w.do("POST", fork+"/apis/coordination.k8s.io/v1/namespaces/default/leases", configMap("lease", ""))
	w.do("POST", fork+"/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"more","labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},"rules":[{"apiGroups":["x"],"resources":["y"],"verbs":["get"]}]}`)
	eventually(t, func() bool {
		return w.gone(fork+coreV1+"/namespaces/old") && w.gone(fork+defaults+"/configmaps/owned") && w.gone(fork+defaults+"/configmaps/keeper")
	})
	w.do("POST", defaults+"/services", fmt.Sprintf(`{"metadata":{"name":"other"},"spec":{"clusterIP":%q,"ports":[{"port":80}]}}`, taken))

	// A dry run says the same and writes nothing.
	rehearsed, causes := mergeFork(t, w.s, "try", false, true)
	if rehearsed == nil || !w.gone(coreV1+"/namespaces/team") {
		t.Fatalf("the dry run: %v", causes)
	}
	done, causes := mergeFork(t, w.s, "try", false, false)
	if done == nil {
		t.Fatal(causes)
	}
	want := []string{"created Namespace /team", "created ConfigMap team/a", "created CustomResourceDefinition /boxes.new.example.com", "created Box default/b",
		"created Service default/s", "deleted Namespace /old", "deleted ConfigMap default/owner", "deleted ConfigMap default/keeper", "created ConfigMap default/parent",
		"created ConfigMap default/child", "created ClusterRole /more"}
	if got := results(done); !slices.Equal(got, want) || !slices.Equal(results(rehearsed), want) {
		t.Errorf("%q\n%q\nwant %q", got, results(rehearsed), want)
	}
	if l := done.Status.Left; len(l) != 1 || l[0].Name != "web-1" || l[0].Controller != "Deployment/web" {
		t.Errorf("left: %v", l)
	}
	if ip := textAt(w.do("GET", defaults+"/services/s", ""), "spec", "clusterIP"); ip == taken || ip == "" {
		t.Errorf("the service has %q, which is another one's", ip)
	}
	child := w.do("GET", defaults+"/configmaps/child", "")
	refs, _, _ := unstructured.NestedSlice(child, "metadata", "ownerReferences")
	if uid := textAt(w.do("GET", defaults+"/configmaps/parent", ""), "metadata", "uid"); len(refs) != 1 || refs[0].(map[string]any)["uid"] != uid || uid == textAt(parent, "metadata", "uid") {
		t.Errorf("the child belongs to %v, the parent is %s", refs, uid)
	}
	eventually(t, func() bool {
		return w.gone(coreV1+"/namespaces/old") && w.gone(defaults+"/configmaps/owned") && w.gone(defaults+"/configmaps/keeper")
	})
	if w.gone(defaults+"/configmaps/kept") || w.gone(defaults+"/configmaps/child") {
		t.Error("what was kept in the fork is gone")
	}
	if !w.gone("/apis/apps/v1/namespaces/default/replicasets/web-1") || !w.gone("/apis/coordination.k8s.io/v1/namespaces/default/leases/lease") {
		t.Error("what is not merged is there")
	}
	// Merged again, there is nothing left to do.
	if done, causes := mergeFork(t, w.s, "try", false, false); done == nil || len(done.Status.Objects) > 0 {
		t.Errorf("%v %v", done, causes)
	}
}

// TestMergeConflicts names what both sides have changed, and of deletions what they would take away.
func TestMergeConflicts(t *testing.T) {
	w := mergeWorld{t, startWith(t, func(c *config.Config) { c.Controllers = []string{"*"} })}
	for _, name := range []string{"gone", "stays"} {
		w.do("POST", coreV1+"/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
		w.do("POST", coreV1+"/namespaces/"+name+"/secrets", `{"metadata":{"name":"s"},"stringData":{"password":"one"}}`)
		w.do("POST", coreV1+"/namespaces/"+name+"/configmaps", `{"metadata":{"name":"m"},"data":{"k":"one"}}`)
	}
	eventually(t, func() bool { // its controllers have made what they make in each
		return !w.gone(coreV1+"/namespaces/gone/serviceaccounts/default") && !w.gone(coreV1+"/namespaces/gone/configmaps/kube-root-ca.crt")
	})
	const again = `{"metadata":{"name":"again"},"data":{"k":"one"}}`
	w.do("POST", coreV1+"/namespaces/stays/configmaps", again)
	w.do("POST", "/forks/try", "")
	const fork, three = "/forks/try", `{"data":{"k":"three"}}`
	w.do("DELETE", fork+coreV1+"/namespaces/gone", "")
	w.do("PATCH", fork+coreV1+"/namespaces/stays/secrets/s?fieldManager=ann", `{"stringData":{"password":"two"}}`)
	w.do("PATCH", fork+coreV1+"/namespaces/stays/configmaps/m?fieldManager=ann", `{"data":{"k":"two"}}`)
	eventually(t, func() bool { return w.gone(fork + coreV1 + "/namespaces/gone") })
	w.do("PATCH", coreV1+"/namespaces/gone/configmaps/m?fieldManager=bob", three)
	w.do("PATCH", coreV1+"/namespaces/stays/secrets/s?fieldManager=bob", `{"stringData":{"password":"three"}}`)
	w.do("DELETE", coreV1+"/namespaces/stays/configmaps/m", "")
	w.do("DELETE", fork+coreV1+"/namespaces/stays/configmaps/again", "") // the server has another object of the name, though with the same fields
	w.do("DELETE", coreV1+"/namespaces/stays/configmaps/again", "")
	w.do("POST", coreV1+"/namespaces/stays/configmaps?fieldManager=bob", again)

	_, causes := mergeFork(t, w.s, "try", false, false)
	var got []string
	for _, c := range causes {
		got = append(got, c.Message)
	}
	slices.Sort(got)
	want := []string{
		"v1 ConfigMap gone/m: the fork has deleted it, the server has changed it (bob)",
		"v1 ConfigMap stays/again: the fork has deleted it, the server has changed it (bob)",
		"v1 ConfigMap stays/m: the fork has changed it (ann), the server has deleted it",
		"v1 Secret stays/s: data.password: the fork has (hidden) (ann), the server has (hidden) (bob)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}

	// The flight recorder does not tell those who may merge what others' objects have.
	var recorded []string
	eventually(t, func() bool { recorded = requestNames(t, w.s, "code=409,resource=merges"); return len(recorded) == 1 })
	if text := do(t, w.s, "GET", "/apis/flightrecorder.kanzen.io/v1alpha1/requests/"+recorded[0], "", "", nil, 200); strings.Contains(string(text), "the fork has") {
		t.Errorf("%s", text)
	}

	// Who merges needs the rights, for the fork, to read and to write.
	eve := &user.DefaultInfo{Name: "eve", Groups: []string{user.AllAuthenticated}}
	grant := func(name, rules string) {
		w.do("POST", rbacPath+"clusterroles", fmt.Sprintf(`{"metadata":{"name":%q},"rules":[%s]}`, name, rules))
		w.do("POST", rbacPath+"clusterrolebindings", fmt.Sprintf(`{"metadata":{"name":%q},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]}`, name, name))
		if err := w.s.base.objects.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	merge := func(name string) (int, string) {
		code, o := w.ask(eve, "POST", mergesPath, fmt.Sprintf(`{"spec":{"fork":%q,"force":true}}`, name))
		return code, fmt.Sprint(o["message"])
	}
	for _, step := range []struct{ grants, rules, want string }{
		{"", "", `cannot create resource "merges"`},
		{"merge", `{"apiGroups":["fork.kanzen.io"],"resources":["merges"],"verbs":["create"]}`, `cannot get path "/forks/next"`},
		{"fork", `{"nonResourceURLs":["/forks/next","/forks/next/*"],"verbs":["get"]}`, `cannot get resource "configmaps"`},
		{"read", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}`, ``},
	} {
		if step.grants != "" {
			grant(step.grants, step.rules)
		}
		if step.grants == "fork" { // what she may do in a fork is what she could do when it was made
			w.do("POST", "/forks/next", "")
			w.do("PATCH", "/forks/next"+coreV1+"/namespaces/gone/configmaps/m", `{"data":{"k":"four"}}`)
		}
		if code, said := merge("next"); step.want != "" && (code != http.StatusForbidden || !strings.Contains(said, step.want)) {
			t.Errorf("with %s: %d %s, want %q", step.grants, code, said, step.want)
		}
	}
	w.do("POST", "/forks/late", "")
	w.do("PATCH", "/forks/late"+coreV1+"/namespaces/gone/configmaps/m", `{"data":{"k":"four"}}`)
	grant("late", `{"nonResourceURLs":["/forks/late","/forks/late/*"],"verbs":["get"]}`)
	if code, said := merge("late"); code != http.StatusForbidden || !strings.Contains(said, `cannot update resource "configmaps"`) {
		t.Errorf("%d %s", code, said)
	}
	grant("write", `{"apiGroups":[""],"resources":["configmaps"],"verbs":["update"]}`)
	if code, said := merge("late"); code != http.StatusCreated {
		t.Errorf("%d %s", code, said)
	}
	if code, said := merge("none"); code != http.StatusForbidden {
		t.Errorf("%d %s", code, said)
	}
	// A right to one path of a fork is none to what is below others, nor to the names of what was changed.
	w.do("POST", "/forks/narrow", "")
	grant("narrow", `{"nonResourceURLs":["/forks/narrow","/forks/narrow/api"],"verbs":["get"]}`)
	if code, said := merge("narrow"); code != http.StatusForbidden || !strings.Contains(said, `cannot get path "/forks/narrow/*"`) {
		t.Errorf("%d %s", code, said)
	}
}

// TestMergeOfDeletedFork: a fork that is deleted while it is merged has not changed nothing.
func TestMergeOfDeletedFork(t *testing.T) {
	s := start(t)
	f, err := s.fork(t.Context(), ForkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := f
	if _, err := m.Head(t.Context()); err != nil {
		t.Error(err)
	}
	if err := f.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Head(t.Context()); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the head of a fork that was deleted: %v", err)
	}
	if _, _, ok := m.Find(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}); ok {
		t.Error("a fork that was deleted serves pods")
	}
}
