package engine

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

func options(rest string) string { return `{"apiVersion":"v1","kind":"DeleteOptions",` + rest + `}` }

// The propagation policy is stored as a finalizer, and removing the last finalizer removes the object.
func TestDeleteWithFinalizers(t *testing.T) {
	x := newKinds(t)
	for _, name := range []string{"plain", "orphan", "foreground", "background", "old", "held"} {
		x.expect("POST "+deploys, deployment(name, ""), "201")
	}
	const deleting = " metadata.deletionTimestamp=2026-01-02T03:04:05Z metadata.deletionGracePeriodSeconds=0"
	x.expectAll([]ask{
		{"DELETE " + deploys + "/plain", "", "200 kind=Status status=Success details.name=plain details.uid=uid-1"},
		{"DELETE " + deploys + "/plain", "", "404 reason=NotFound"},
		{"DELETE " + deploys + "/orphan?propagationPolicy=Orphan", "", "200 kind=Deployment metadata.finalizers=orphan metadata.generation=2" + deleting},
		{"DELETE " + deploys + "/foreground", options(`"propagationPolicy":"Foreground"`), "200 kind=Deployment metadata.finalizers=foregroundDeletion" + deleting},
		{"DELETE " + deploys + "/foreground", options(`"propagationPolicy":"Orphan"`), "200 metadata.finalizers=orphan metadata.generation=2"},
		{"DELETE " + deploys + "/background", options(`"propagationPolicy":"Background"`), "200 kind=Status"},
		{"DELETE " + deploys + "/old?orphanDependents=true", "", "200 metadata.finalizers=orphan"},
		{"DELETE " + deploys + "/held", options(`"propagationPolicy":"Sideways"`), "422 reason=Invalid details.kind=DeleteOptions"},
		{"DELETE " + deploys + "/held", options(`"propagationPolicy":"Orphan","orphanDependents":true`), "422 reason=Invalid details.kind=DeleteOptions"},
		{"DELETE " + deploys + "/held", `{"kind":"Pod","apiVersion":"v1"}`, "400 reason=BadRequest"},
		{"DELETE " + deploys + "/held", `{`, "400 reason=BadRequest"},
		{"DELETE " + deploys + "/held?gracePeriodSeconds=soon", ``, "400 reason=BadRequest"},

		{"PATCH/merge " + deploys + "/held", `{"metadata":{"finalizers":["a.com/x","a.com/y"]}}`, "200 metadata.finalizers=a.com/x,a.com/y"},
		{"DELETE " + deploys + "/held?dryRun=All", "", "200 metadata.finalizers=a.com/x,a.com/y" + deleting},
		{"GET " + deploys + "/held", "", "200 metadata.deletionTimestamp="},
		{"DELETE " + deploys + "/held", options(`"orphanDependents":false`), "202 kind=Deployment" + deleting},
		{"PATCH/merge " + deploys + "/held", `{"metadata":{"finalizers":["a.com/y","a.com/z"]}}`, "422 reason=Invalid details.causes.0.field=metadata.finalizers"},
		{"PATCH/merge " + deploys + "/held", `{"metadata":{"finalizers":["a.com/y"]}}`, "200 metadata.finalizers=a.com/y"},
		{"PATCH/merge " + deploys + "/held?dryRun=All", `{"metadata":{"finalizers":null}}`, "200 metadata.finalizers="},
		{"GET " + deploys + "/held", "", "200 metadata.finalizers=a.com/y"},
		{"PATCH/merge " + deploys + "/held", `{"metadata":{"finalizers":null}}`, "200 kind=Deployment metadata.finalizers="},
		{"GET " + deploys + "/held", "", "404 reason=NotFound"},
	}...)
}

func TestDeletePreconditions(t *testing.T) {
	x := newKinds(t)
	doc := x.expect("POST "+deploys, deployment("a", ""), "201")
	rev := at(doc, "metadata.resourceVersion")
	x.expectAll([]ask{
		{"DELETE " + deploys + "/a", options(`"preconditions":{"uid":"other"}`), "409 reason=Conflict details.name=a details.group=apps details.kind=Deployment"},
		{"DELETE " + deploys + "/a", options(`"preconditions":{"resourceVersion":"1"}`), "409 reason=Conflict"},
		{"DELETE " + deploys + "/a?dryRun=All", options(`"preconditions":{"uid":"uid-1"},"dryRun":["All"]`), "200 status=Success"},
		{"DELETE " + deploys + "/a", options(`"preconditions":{"uid":"uid-1","resourceVersion":"` + rev + `"}`), "200 status=Success"},
		{"GET " + deploys + "/a", "", "404"},
	}...)
}

// A graceful deletion takes the kind's time; a later one may only make it shorter.
func TestGracefulDelete(t *testing.T) {
	x := newKinds(t)
	pod := func(name, labels string) string {
		return `{"metadata":{"name":"` + name + `","labels":{` + labels + `}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	}
	for _, name := range []string{"a", "b", "c"} {
		x.expect("POST "+podsAt, pod(name, ""), "201")
	}
	x.expect("POST "+podsAt, pod("kept", `"keep":"yes"`), "201")
	x.expectAll([]ask{
		{"DELETE " + podsAt + "/a", "", "200 kind=Pod metadata.deletionGracePeriodSeconds=30 metadata.deletionTimestamp=2026-01-02T03:04:35Z"},
		{"DELETE " + podsAt + "/a?gracePeriodSeconds=60", "", "200 metadata.deletionGracePeriodSeconds=30"},
		{"DELETE " + podsAt + "/a?gracePeriodSeconds=10", "", "200 metadata.deletionGracePeriodSeconds=10 metadata.deletionTimestamp=2026-01-02T03:04:15Z"},
		{"DELETE " + podsAt + "/b?gracePeriodSeconds=-5", "", "200 metadata.deletionGracePeriodSeconds=1"},
		{"DELETE " + podsAt + "/c?gracePeriodSeconds=0", "", "200 kind=Pod metadata.name=c"},
		{"GET " + podsAt + "/c", "", "404"},
		{"DELETE " + podsAt + "/kept", "", "403 reason=Forbidden"},
	}...)
	x.clock.Step(20 * time.Second)
	x.expectAll([]ask{
		// The time is over: the grace period becomes the shortest possible, and then none.
		{"DELETE " + podsAt + "/a?gracePeriodSeconds=5", "", "200 metadata.deletionGracePeriodSeconds=1 metadata.deletionTimestamp=2026-01-02T03:04:25Z"},
		{"DELETE " + podsAt + "/a?gracePeriodSeconds=0", "", "200 kind=Pod"},
		{"GET " + podsAt + "/a", "", "404"},
	}...)
	ctx, warnings := request.WithWarnings(t.Context())
	x.serve(&writer{header: map[string][]string{}, wrote: func([]byte) error { return nil }}, x.request(ctx, "DELETE "+podsAt+"/none", ""))
	if got := strings.Join(warnings.Take(), ","); got != "pods are mortal" {
		t.Errorf("warnings: %q", got)
	}
}

func TestDeleteCollection(t *testing.T) {
	x := newKinds(t)
	create := func(namespace, name, labels string) {
		x.expect("POST /apis/apps/v1/namespaces/"+namespace+"/deployments", `{"metadata":{"name":"`+name+`","labels":{`+labels+`}}}`, "201")
	}
	for _, name := range []string{"a", "b", "c"} {
		create("ns", name, `"which":"some"`)
	}
	create("ns", "d", "")
	create("other", "a", `"which":"some"`)
	x.expectAll([]ask{
		{"DELETE " + deploys + "?labelSelector=which%3Dsome&dryRun=All", "", "200 kind=DeploymentList items.#=3"},
		{"DELETE " + deploys + "?labelSelector=which%3Dsome&limit=2", "", "200 kind=DeploymentList items.#=2 items.1.metadata.name=b"},
		{"DELETE " + deploys + "?labelSelector=which%3Dsome", options(`"propagationPolicy":"Orphan"`), "200 items.#=1 items.0.metadata.name=c"},
		{"GET " + deploys, "", "200 items.#=2 items.0.metadata.name=c items.0.metadata.finalizers=orphan items.1.metadata.name=d"},
		{"DELETE " + deploys, options(`"preconditions":{"uid":"other"}`), "409 reason=Conflict"},
		{"DELETE " + deploys + "?labelSelector=(", "", "400 reason=BadRequest"},
		{"GET /apis/apps/v1/deployments", "", "200 items.#=3"},
	}...)
	x.expect("DELETE "+deploys+"?fieldSelector=metadata.name%3Dd", "", "200 kind=Table rows.#=1", "Accept: "+asTable)
	x.expect("GET "+deploys+"/d", "", "404")
	x.expect("DELETE "+podsAt, "", "200 kind=PodList items.#=0")
}

// TestDeletedWithCollection checks what webhooks and policies are told of an object that is deleted by itself or with its collection:
// only the former has a name in the request, as with kube-apiserver. Both have the object.
func TestDeletedWithCollection(t *testing.T) {
	x := newKinds(t)
	for at, want := range map[string]string{deploys + "/a": "a", deploys: ""} {
		x.expect("POST "+deploys, `{"metadata":{"name":"a"}}`, "201")
		var got []*admission.Attributes
		var mu sync.Mutex
		x.admits = func(a *admission.Attributes) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, a)
		}
		x.expect("DELETE "+at+"?propagationPolicy=Background", "", "200")
		x.admits = nil
		if len(got) != 1 || got[0].Operation != admission.Delete || got[0].OldObject == nil || got[0].Name != "a" {
			t.Fatalf("%s: %+v", at, got)
		}
		if told := expr.Request(got[0], admission.Version{Resource: got[0].Resource, Kind: got[0].Kind}).Name; told != want {
			t.Errorf("%s: %q is told, want %q", at, told, want)
		}
	}
}

// An object that its kind's rules hold is removed once they no longer do.
func TestHeldByKind(t *testing.T) {
	r := pods()
	r.Plural, r.Prefix = "holders", "holders"
	r.Rules = Rules{
		Held:        func(obj Object) bool { return obj.(*corev1.Pod).Spec.Hostname != "" },
		Terminating: func(obj Object) { obj.(*corev1.Pod).Status.Phase = corev1.PodFailed },
		HeldAlone:   true,
	}
	x := newKinds(t, r)
	const holders = "/api/v1/namespaces/ns/holders"
	x.expectAll([]ask{
		{"POST " + holders, `{"metadata":{"name":"a"},"spec":{"hostname":"h"}}`, "201"},
		{"DELETE " + holders + "/a?propagationPolicy=Orphan", "", "200 status.phase=Failed metadata.deletionTimestamp=2026-01-02T03:04:05Z metadata.finalizers="},
		{"DELETE " + holders + "/a", "", "200 status.phase=Failed"},
		{"PATCH/merge " + holders + "/a", `{"metadata":{"labels":{"x":"y"}}}`, "200 metadata.labels.x=y"},
		{"PATCH/merge " + holders + "/a", `{"spec":{"hostname":null}}`, "200 spec.hostname="},
		{"GET " + holders + "/a", "", "404"},
	}...)
}

// The first deletion of an object that is held until then marks it, and those after it change nothing while it is held.
func TestHeldUntilDeleted(t *testing.T) {
	r := pods()
	r.Plural, r.Prefix = "holders", "holders"
	r.Rules = Rules{
		Held: func(obj Object) bool {
			return obj.GetDeletionTimestamp() == nil || obj.(*corev1.Pod).Spec.Hostname != ""
		},
		Terminating: func(obj Object) { obj.(*corev1.Pod).Status.Phase = corev1.PodFailed },
	}
	x := newKinds(t, r)
	const holders = "/api/v1/namespaces/ns/holders"
	const marked = "200 status.phase=Failed metadata.deletionTimestamp=2026-01-02T03:04:05Z metadata.finalizers="
	x.expectAll([]ask{
		{"POST " + holders, `{"metadata":{"name":"a"}}`, "201"},
		{"DELETE " + holders + "/a", "", marked},
		{"GET " + holders + "/a", "", marked},
		{"DELETE " + holders + "/a", "", "200"},
		{"GET " + holders + "/a", "", "404"},
		{"POST " + holders, `{"metadata":{"name":"b"},"spec":{"hostname":"h"}}`, "201"},
		{"DELETE " + holders + "/b?orphanDependents=false", "", "202 metadata.finalizers=foregroundDeletion"},
		{"DELETE " + holders + "/b?propagationPolicy=Orphan", "", "200 metadata.finalizers=foregroundDeletion"},
	}...)
}

// A client that goes away while its request is under way makes it fail, wherever it is. Its answer, which only metrics and the
// audit log see, is a timeout, as in kube-apiserver, and not an error of the server.
func TestClientHasGone(t *testing.T) {
	x := newKinds(t)
	x.expect("POST "+podsAt, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, "201")
	x.expect("GET "+podsAt, "", "200")
	for _, c := range []struct {
		what, body string
		of         memory.Operation
	}{
		{"GET " + podsAt, "", memory.Head},
		{"GET " + podsAt + "/a", "", memory.Head},
		{"POST " + podsAt, `{"metadata":{"name":"b"}}`, memory.Commit},
		{"PATCH/merge " + podsAt + "/a", `{"metadata":{"labels":{"x":"y"}}}`, memory.Commit},
		{"PATCH/merge " + podsAt + "/a", `{"metadata":{"labels":{"x":null}}}`, memory.Range},
		{"DELETE " + podsAt + "/a", "", memory.Commit},
		{"DELETE " + podsAt + "/none", "", memory.Range},
		{"DELETE " + podsAt, "", memory.Commit},
	} {
		ctx, goAway := context.WithCancel(t.Context())
		x.db.Inject(memory.Fault{Of: c.of, Before: func(context.Context) { goAway() }, Err: context.Canceled})
		w := httptest.NewRecorder()
		x.serve(w, x.request(ctx, c.what, c.body))
		if x.db.Injected() > 0 || w.Code != http.StatusGatewayTimeout || !strings.Contains(w.Body.String(), `"reason":"Timeout"`) {
			t.Errorf("%s: %d %s (%d faults left)", c.what, w.Code, w.Body, x.db.Injected())
		}
	}
}

// A request that takes too long is answered in plain text, which is how kube-apiserver's clients learn that it may still be
// going on, also where they ask for protobuf.
func TestRequestTimesOut(t *testing.T) {
	x := newKinds(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	r := x.request(ctx, "POST "+podsAt, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	r.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
	w := httptest.NewRecorder()
	x.serve(w, r)
	const want = `{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}` + "\n"
	if w.Code != http.StatusGatewayTimeout || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Body.String() != want {
		t.Errorf("%d %s %s", w.Code, w.Header(), w.Body)
	}
}

// Who makes an object of a name that is taken learns that its holder is being deleted, also if this server has not seen that yet.
func TestCreateWhileDeleted(t *testing.T) {
	x := newKinds(t)
	now := metav1.NewTime(epoch)
	dying := stored(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", DeletionTimestamp: &now}})
	x.db.Inject(memory.Fault{Of: memory.Commit, Before: func(ctx context.Context) {
		if _, err := x.db.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: "/registry/pods/ns/a", Value: dying}}}); err != nil {
			t.Error(err)
		}
	}})
	doc := x.expect("POST "+podsAt, `{"metadata":{"name":"a"}}`, "409 reason=AlreadyExists")
	if got, want := at(doc, "message"), `object is being deleted: pods "a" already exists`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDeletedWhileHeld deletes what something else than finalizers holds: the first deletion marks it, and further ones change nothing.
func TestDeletedWhileHeld(t *testing.T) {
	gv := corev1.SchemeGroupVersion
	x := newKinds(t, &Resource{
		Plural: "namespaces", Kind: "Namespace", Prefix: "namespaces", Hub: gv, ReturnDeleted: true,
		Versions: []*Version{{GroupVersion: gv, New: func() Object { return &corev1.Namespace{} }, NewList: func() runtime.Object { return &corev1.NamespaceList{} }}},
		Rules: Typed[*corev1.Namespace]{
			Held:        func(n *corev1.Namespace) bool { return n.DeletionTimestamp == nil || len(n.Spec.Finalizers) > 0 },
			Terminating: func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating },
		}.Rules(),
	})
	const a = "/api/v1/namespaces/a"
	x.expectAll([]ask{
		{"POST /api/v1/namespaces", `{"metadata":{"name":"a"},"spec":{"finalizers":["x"]}}`, "201"},
		{"DELETE " + a, options(`"preconditions":{"uid":"other"}`), "409 reason=Conflict details.kind=namespaces"},
		{"DELETE " + a, options(`"propagationPolicy":"Orphan"`), "200 status.phase=Terminating metadata.finalizers=orphan"},
		{"DELETE " + a, options(`"propagationPolicy":"Foreground"`), "200 metadata.finalizers=orphan"},
		{"DELETE " + a, "", "200 metadata.finalizers=orphan"},
		{"GET " + a, "", "200 metadata.finalizers=orphan"},
		{"POST /api/v1/namespaces", `{"metadata":{"name":"b"}}`, "201"},
		{"DELETE /api/v1/namespaces/b", "", "200 status.phase=Terminating"},
		{"DELETE /api/v1/namespaces/b", "", "200"},
		{"GET /api/v1/namespaces/b", "", "404"},
	}...)
}

// TestAnswerOfRemoval removes an object of a kind that answers with it: it is what was stored, with the finalizers that the deletion has no
// need of.
func TestAnswerOfRemoval(t *testing.T) {
	gv := corev1.SchemeGroupVersion
	x := newKinds(t, &Resource{
		Plural: "nodes", Kind: "Node", Prefix: "nodes", Hub: gv, ReturnDeleted: true,
		Versions: []*Version{{GroupVersion: gv, New: func() Object { return &corev1.Node{} }, NewList: func() runtime.Object { return &corev1.NodeList{} }}},
		Rules:    Typed[*corev1.Node]{}.Rules(),
	})
	x.expectAll([]ask{
		{"POST /api/v1/nodes", `{"metadata":{"name":"a"}}`, "201"},
		{"DELETE /api/v1/nodes/a?propagationPolicy=Orphan", "", "200 metadata.finalizers=orphan"},
		{"DELETE /api/v1/nodes/a?propagationPolicy=Background", "", "200 kind=Node metadata.finalizers=orphan"},
		{"GET /api/v1/nodes/a", "", "404"},
		// A graceful deletion that has been begun before is not begun again.
		{"POST " + podsAt, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, "201"},
		{"DELETE " + podsAt + "/p?gracePeriodSeconds=0&propagationPolicy=Foreground", "", "200 metadata.finalizers=foregroundDeletion"},
		{"DELETE " + podsAt + "/p", options(`"orphanDependents":false`), "200 kind=Pod metadata.finalizers=foregroundDeletion"},
		{"GET " + podsAt + "/p", "", "404"},
	}...)
}
