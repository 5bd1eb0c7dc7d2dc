package engine

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ask is a request and what is expected of its answer.
type ask struct{ what, body, want string }

func (x *kinds) expectAll(asks ...ask) {
	x.t.Helper()
	for _, a := range asks {
		x.expect(a.what, a.body, a.want)
	}
}

// A kind with rules: they decide what is stored, and what is refused.
func TestWritesOfKind(t *testing.T) {
	newKinds(t).expectAll([]ask{
		{"POST " + deploys, deployment("a", `,"spec":{"replicas":2},"status":{"replicas":7}`),
			"201 apiVersion=apps/v1 kind=Deployment metadata.namespace=ns metadata.uid=uid-1 metadata.generation=1 metadata.creationTimestamp=2026-01-02T03:04:05Z " +
				"spec.replicas=2 status.replicas= metadata.managedFields.0.manager=tester metadata.managedFields.0.operation=Update"},
		{"POST " + deploys, deployment("b", ``), "201 spec.replicas=1"},
		{"POST " + deploys, deployment("c", `,"spec":{"replicas":-1}`), "422 reason=Invalid details.causes.0.field=spec.replicas details.causes.0.reason=FieldValueInvalid"},
		{"POST " + deploys, `{"metadata":{"namespace":"other","name":"c"}}`, "400 reason=BadRequest"},
		{"POST " + deploys, `{"kind":"Pod","apiVersion":"v1"}`, "400 reason=BadRequest"},
		{"POST " + deploys + "?fieldValidation=Strict", deployment("c", `,"spec":{"nonsense":1}`), "400 reason=BadRequest"},
		{"POST " + deploys + "?fieldValidation=Loose", deployment("c", ``), "422 reason=Invalid details.kind=CreateOptions"},
		{"POST " + deploys + "?dryRun=Some", deployment("c", ``), "422 reason=Invalid details.kind=CreateOptions"},
		{"POST " + deploys + "?dryRun=All", deployment("a", ``), "409 reason=AlreadyExists"},
		{"POST " + deploys, `{"metadata":{"generateName":"g-"}}`, "201 metadata.generateName=g-"},
		{"POST " + deploys, `{}`, "422 reason=Invalid details.causes.0.field=metadata.name"},

		{"PUT " + deploys + "/a", deployment("a", `,"spec":{"replicas":3},"status":{"replicas":7}`), "200 spec.replicas=3 metadata.generation=2 status.replicas="},
		{"PUT " + deploys + "/a", deployment("a", `,"spec":{"replicas":3}`), "200 metadata.generation=2"},
		{"PUT " + deploys + "/a?dryRun=All", deployment("a", `,"spec":{"replicas":9}`), "200 spec.replicas=9 metadata.generation=3"},
		{"PUT " + deploys + "/a", deployment("a", `,"spec":{"replicas":-3}`), "422 reason=Invalid"},
		{"PUT " + deploys + "/a", `{"metadata":{"name":"a","uid":"other"}}`, "409 reason=Conflict"},
		{"PUT " + deploys + "/a", `{"metadata":{"name":"b"}}`, "400 reason=BadRequest"},
		{"PUT " + deploys + "/none", deployment("none", ""), "404 reason=NotFound details.name=none details.kind=deployments"},
		{"GET " + deploys + "/a", "", "200 spec.replicas=3 metadata.generation=2"},

		{"PUT " + deploys + "/a/status", `{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"replicas":9},"status":{"replicas":4}}`,
			"200 status.replicas=4 spec.replicas=3 metadata.labels.x= metadata.generation=2 metadata.managedFields.1.subresource=status"},
		{"PATCH/merge " + deploys + "/a/status", `{"status":{"replicas":5}}`, "200 status.replicas=5"},
		{"GET " + deploys + "/a/status", "", "200 status.replicas=5 spec.replicas=3"},
		{"POST " + deploys + "/a/status", `{}`, "405 reason=MethodNotAllowed"},
		{"GET " + deploys + "/a/nothing", "", "404 reason=NotFound"},
	}...)
}

func TestPatches(t *testing.T) {
	x := newKinds(t)
	x.expect("POST "+deploys, deployment("a", `,"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}`), "201")
	const containers = "spec.template.spec.containers."
	x.expectAll([]ask{
		{"PATCH/merge " + deploys + "/a", `{"spec":{"replicas":4}}`, "200 spec.replicas=4 metadata.generation=2"},
		{"PATCH/json " + deploys + "/a", `[{"op":"replace","path":"/spec/replicas","value":5}]`, "200 spec.replicas=5"},
		{"PATCH/json " + deploys + "/a", `[{"op":"test","path":"/spec/replicas","value":1}]`, "422 reason=Invalid"},
		{"PATCH/json " + deploys + "/a", `{`, "400 reason=BadRequest"},
		{"PATCH/strategic " + deploys + "/a", `{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"j"}]}}}}`,
			"200 " + containers + "#=2 " + containers + "0.name=d " + containers + "1.image=i"},
		{"PATCH/strategic " + deploys + "/a", `{"spec":{"template":{"spec":{"containers":[{"name":"d","$patch":"delete"}]}}}}`, "200 " + containers + "#=1"},
		{"PATCH/strategic " + deploys + "/a", `{"spec":{"$patch":"sideways"}}`, "500"},
		{"PATCH/strategic " + deploys + "/a?fieldValidation=Strict", `{"spec":{"nonsense":1}}`, "422 reason=Invalid details.causes.0.field=patch"},
		{"PATCH/merge " + deploys + "/a", `{"spec":{"template":{"spec":{"containers":[{"name":"e"}]}}}}`, "200 " + containers + "#=1 " + containers + "0.image="},
		{"PATCH/merge " + deploys + "/a?fieldValidation=Strict", `{"spec":{"nonsense":1}}`, "422 reason=Invalid details.causes.0.field=patch"},
		{"PATCH/merge " + deploys + "/a", `{"spec":{"replicas":"many"}}`, "422 reason=Invalid"},
		{"PATCH/merge " + deploys + "/a", `{"kind":"Pod"}`, "422 reason=Invalid"},
		{"PATCH/merge " + deploys + "/a?dryRun=All", `{"kind":null}`, "200 kind=Deployment"},
		{"PATCH/merge " + deploys + "/a", `{"apiVersion":""}`, "400 reason=BadRequest"},
		{"PATCH/json " + deploys + "/a", `[{"op":"remove","path":"/apiVersion"}]`, "400 reason=BadRequest"},
		{"PATCH/strategic " + deploys + "/a?dryRun=All", `{"apiVersion":null}`, "200 apiVersion=apps/v1"},
		{"PATCH/merge " + deploys + "/a/scale", `{"apiVersion":""}`, "400 reason=BadRequest"},
		{"PATCH/merge " + deploys + "/a", `{"metadata":{"name":"b"}}`, "400 reason=BadRequest"},
		{"PATCH/merge " + deploys + "/a?force=true", `{}`, "422 reason=Invalid details.kind=PatchOptions"},
		{"PATCH " + deploys + "/a", `{}`, "415 reason=UnsupportedMediaType"},
		{"PATCH/strategic " + widgAt + "/a", `{}`, "415 reason=UnsupportedMediaType"},
		{"PATCH/merge " + deploys + "/none", `{}`, "404 reason=NotFound"},
		{"GET " + deploys + "/a", "", "200 spec.replicas=5"},
	}...)
	if w := x.do("PATCH/strategic "+deploys+"/a", `{"spec":{"nonsense":1,"paused":true}}`); strings.Join(w.Header().Values("Warning"), "") != "" || w.Code != http.StatusOK {
		t.Errorf("warnings are the chain's to send: %d %v", w.Code, w.Header())
	}
}

func TestApply(t *testing.T) {
	x := newKinds(t)
	spec := func(rest string) string {
		return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":` + rest + `}`
	}
	const path = "PATCH/apply " + deploys + "/a"
	x.expectAll([]ask{
		{path, spec(`{}`), "422 reason=Invalid details.kind=PatchOptions details.causes.0.field=fieldManager"},
		{path + "?fieldManager=one", spec(`{"replicas":2,"paused":true}`), "201 spec.replicas=2 spec.paused=true metadata.managedFields.0.manager=one metadata.managedFields.0.operation=Apply"},
		{path + "?fieldManager=two", spec(`{"replicas":3}`), "409 reason=Conflict details.causes.0.reason=FieldManagerConflict details.causes.0.field=.spec.replicas"},
		{path + "?fieldManager=two&force=true", spec(`{"replicas":3}`), "200 spec.replicas=3 spec.paused=true"},
		// one no longer owns the replicas, and removes the rest.
		{path + "?fieldManager=one", spec(`{}`), "200 spec.replicas=3 spec.paused="},
		{path + "?fieldManager=one&dryRun=All", spec(`{"paused":true}`), "200 spec.paused=true"},
		{"GET " + deploys + "/a", "", "200 spec.paused="},
		{path + "?fieldManager=one", `: no yaml`, "400 reason=BadRequest"},
		{"PATCH/apply " + podsAt + "/p?fieldManager=one", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nonsense":1}}`, "500"},
		{path + "?fieldManager=one&fieldValidation=Strict", "apiVersion: apps/v1\nkind: Deployment\nkind: Deployment\nmetadata: {name: a}\n", "400 reason=BadRequest"},
		{path + "?fieldManager=one", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"b"}}`, "400 reason=BadRequest"},
		{path + "?fieldManager=one", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","uid":"x"}}`, "422 reason=Invalid details.causes.0.field=metadata.uid"},
		// An apply that creates needs authorization to create.
		{"PATCH/apply " + deploys + "/none?fieldManager=m", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"none","uid":"x"}}`, "409 reason=Conflict"},
	}...)
	x.mayCreate = apierrors.NewForbidden(corev1.Resource("deployments"), "", nil)
	x.expect("PATCH/apply "+deploys+"/b?fieldManager=m", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"b"}}`, "403 reason=Forbidden")
	x.expect("GET "+deploys+"/b", "", "404 reason=NotFound")
}

// A version other than the stored one is converted on its way in and out.
func TestVersions(t *testing.T) {
	x := newKinds(t)
	const old = "/apis/apps/v1beta1/namespaces/ns/deployments"
	x.expectAll([]ask{
		{"POST " + old, `{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":2}}`,
			"201 apiVersion=apps/v1beta1 spec.replicas=2 metadata.managedFields.0.apiVersion=apps/v1beta1"},
		{"GET " + deploys + "/a", "", "200 apiVersion=apps/v1 spec.replicas=2 metadata.managedFields.0.apiVersion=apps/v1beta1"},
		{"POST " + old, deployment("b", ""), "400 reason=BadRequest"},
		{"PUT " + old + "/a", `{"metadata":{"name":"a"},"spec":{"replicas":3}}`, "200 apiVersion=apps/v1beta1 spec.replicas=3 metadata.generation=2"},
		{"PATCH/merge " + old + "/a", `{"spec":{"paused":true}}`, "200 apiVersion=apps/v1beta1 spec.paused=true spec.replicas=3"},
		{"PATCH/strategic " + old + "/a", `{"spec":{"paused":false}}`, "200 spec.paused= spec.replicas=3"},
		{"PATCH/apply " + old + "/a?fieldManager=m", `{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"a"},"spec":{"minReadySeconds":5}}`,
			"200 apiVersion=apps/v1beta1 spec.minReadySeconds=5 spec.replicas=3"},
		{"PATCH/apply " + deploys + "/a?fieldManager=n", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"minReadySeconds":6}}`,
			"409 reason=Conflict details.causes.0.field=.spec.minReadySeconds"},
		{"GET " + old, "", "200 apiVersion=apps/v1beta1 kind=DeploymentList items.#=1 items.0.spec.replicas=3"},
		{"GET " + old + "/a/scale", "", "200 apiVersion=autoscaling/v1 kind=Scale spec.replicas=3"},
		{"DELETE " + old + "/a", "", "200 status=Success details.group=apps details.kind=deployments"},
	}...)
}

// Objects without a Go type: undeclared fields are kept, an update needs a revision and may create.
func TestUntyped(t *testing.T) {
	x := newKinds(t)
	doc := x.expect("POST "+widgAt, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"any":"thing"}}`, "201 spec.any=thing metadata.uid=uid-1")
	x.expectAll([]ask{
		{"PUT " + widgAt + "/a", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`, "422 reason=Invalid details.causes.0.field=metadata.resourceVersion"},
		{"PUT " + widgAt + "/a", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"` + at(doc, "metadata.resourceVersion") + `"},"spec":{"any":1}}`, "200 spec.any=1"},
		{"PUT " + widgAt + "/b", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b"}}`, "201 metadata.name=b"},
		{"PUT " + widgAt + "/c", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"c","uid":"x"}}`, "409 reason=Conflict"},
		{"PATCH/merge " + widgAt + "/a", `{"spec":{"any":null,"other":[1,2]}}`, "200 spec.any= spec.other=1,2"},
		{"PATCH/apply " + widgAt + "/a?fieldManager=m", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"mine":true}}`, "200 spec.mine=true spec.other=1,2"},
		{"POST " + widgAt, `{"kind":"Widget","metadata":{"name":"d"}}`, "400 reason=BadRequest"},
	}...)
	x.mayCreate = apierrors.NewForbidden(corev1.Resource("widgets"), "", nil)
	x.expect("PUT "+widgAt+"/d", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"d"}}`, "403 reason=Forbidden")
}

func TestVirtual(t *testing.T) {
	const reviews, computed = "/apis/authorization.k8s.io/v1/subjectaccessreviews", "/api/v1/componentstatuses"
	newKinds(t).expectAll([]ask{
		{"POST " + reviews, `{"spec":{"user":"alice"}}`, "201 kind=SubjectAccessReview status.allowed=true"},
		{"POST " + reviews, `{"spec":{"user":"bob"}}`, "201 status.allowed=false"},
		{"POST " + reviews, `{"spec":{"user":"nobody"}}`, "201 kind=Status status=Success"},
		{"POST " + reviews, `{}`, "400 reason=BadRequest"},
		{"GET " + reviews, ``, "405 reason=MethodNotAllowed"},
		{"GET " + computed, ``, "200 kind=ComponentStatusList items.#=2 items.1.metadata.name=scheduler"},
		{"GET " + computed + "?labelSelector=of%3Detcd", ``, "200 items.#=1 items.0.metadata.name=etcd"},
		{"GET " + computed + "?fieldSelector=metadata.name%3Dscheduler", ``, "200 items.#=1 items.0.metadata.name=scheduler"},
		{"GET " + computed + "/etcd", ``, "200 kind=ComponentStatus metadata.name=etcd"},
		{"GET " + computed + "/nothing", ``, "404 reason=NotFound"},
	}...)
}
