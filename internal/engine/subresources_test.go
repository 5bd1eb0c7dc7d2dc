package engine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func scale(rest string) string {
	return `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{` + rest + `}}`
}

func TestScale(t *testing.T) {
	x := newKinds(t)
	const path = deploys + "/a/scale"
	x.expect("POST "+deploys, deployment("a", `,"spec":{"replicas":1}`), "201")
	x.expectAll([]ask{
		{"GET " + path, "", "200 apiVersion=autoscaling/v1 kind=Scale metadata.name=a metadata.namespace=ns metadata.uid=uid-1 metadata.managedFields= spec.replicas=1 status.replicas=0 status.selector=app=x"},
		{"PUT " + path, scale(`"replicas":2`), "200 kind=Scale spec.replicas=2"},
		{"PUT " + path, scale(`"replicas":-3`), "422 reason=Invalid details.kind=Scale details.causes.0.field=spec.replicas"},
		{"PUT " + path, `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"b"}}`, "400 reason=BadRequest"},
		{"PUT " + path, `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"other"}}`, "400 reason=BadRequest"},
		{"PUT " + path, `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","uid":"x"},"spec":{"replicas":3}}`, "409 reason=Conflict"},
		{"PUT " + path, `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","resourceVersion":"1"},"spec":{"replicas":3}}`, "409 reason=Conflict"},
		{"PUT " + path, deployment("a", ""), "400 reason=BadRequest"},
		{"PUT " + deploys + "/none/scale", `{"metadata":{"name":"none"}}`, "404 reason=NotFound"},
		{"GET " + deploys + "/none/scale", ``, "404 reason=NotFound"},
		{"PUT " + path + "?dryRun=All", scale(`"replicas":9`), "200 spec.replicas=9"},
		{"GET " + deploys + "/a", "", "200 kind=Deployment spec.replicas=2 metadata.generation=2 metadata.managedFields.0.manager=tester"},

		{"PATCH/merge " + path, `{"spec":{"replicas":3}}`, "200 spec.replicas=3"},
		{"PATCH/strategic " + path, `{"spec":{"replicas":4}}`, "200 spec.replicas=4"},
		{"PATCH/json " + path, `[{"op":"replace","path":"/spec/replicas","value":5}]`, "200 spec.replicas=5"},
		{"PATCH/json " + path, `[{"op":"replace","path":"/spec/replicas","value":-1}]`, "422 reason=Invalid details.kind=Scale"},
		{"PATCH/json " + path, `[{"op":"replace","path":"/metadata/name","value":"x"}]`, "400 reason=BadRequest"},
		{"PATCH/merge " + path, `{"kind":"Pod"}`, "422 reason=Invalid details.causes.0.field=patch"},
		{"GET " + deploys + "/a", "", "200 spec.replicas=5 metadata.generation=5"},
	}...)
}

// The manager that applies a scale owns the replicas of the object.
func TestApplyScale(t *testing.T) {
	x := newKinds(t)
	const path = "PATCH/apply " + deploys + "/a/scale?fieldManager="
	x.expect("POST "+deploys, deployment("a", ``), "201")
	x.expectAll([]ask{
		{path + "one", scale(`"replicas":3`), "409 reason=Conflict details.causes.0.field=.spec.replicas"},
		{path + "one&force=true", scale(`"replicas":3`), "200 kind=Scale spec.replicas=3"},
		{path + "two", scale(`"replicas":4`), "409 reason=Conflict details.causes.0.field=.spec.replicas"},
		{path + "one", scale(`"nonsense":4`), "500"},
		{path + "one", `: no yaml`, "400 reason=BadRequest"},
		{path + "one&fieldValidation=Strict", "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: a}\nspec: {replicas: 3, replicas: 3}\n", "400 reason=BadRequest"},
		{"PATCH/apply " + deploys + "/a?fieldManager=two", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":7}}`,
			"409 reason=Conflict details.causes.0.field=.spec.replicas"},
		{path + "one", scale(``), "200"},
	}...)
}

func TestScaleOfUntyped(t *testing.T) {
	x := newKinds(t)
	const path = widgAt + "/a/scale"
	x.expectAll([]ask{
		{"POST " + widgAt, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`, "201"},
		{"GET " + path, "", "500 reason=InternalError"},
		{"PATCH/merge " + path, `{"metadata":{"labels":{"a":"b"}}}`, "400 reason=BadRequest"},
		{"PATCH/merge " + path, `{"spec":{"replicas":2},"apiVersion":""}`, "200 spec.replicas=2"},
		{"GET " + path, "", "200 spec.replicas=2"},
		{"GET " + widgAt + "/a", "", "200 spec.replicas=2"},
	}...)
	x.expect("GET "+path, "", "200 columnDefinitions.0.format=name columnDefinitions.3.type=date rows.0.cells.1=2", "Accept: "+asTable)
	x.expect("GET "+path, "", "200 kind=Scale spec.replicas=2", "Accept: "+protobufMedia+", application/json")
	if w := x.do("GET "+path, "", "Accept: "+protobufMedia); w.Code != 406 {
		t.Errorf("in protobuf: %d %s", w.Code, w.Body)
	}
}

// A subresource of another kind is created below an object.
func TestCreateSubresource(t *testing.T) {
	const path = podsAt + "/p/binding"
	newKinds(t).expectAll([]ask{
		{"POST " + path, `{"target":{"name":"n"}}`, "201 kind=Status status=Success code=201"},
		{"POST " + path, `{"apiVersion":"v1","kind":"Binding"}`, "201 kind=Binding apiVersion=v1"},
		{"POST " + path, `{"apiVersion":"v1beta1","kind":"Binding","target":{"name":"n"}}`, "201 kind=Status status=Success"},
		{"POST " + path, `{"apiVersion":"v2","kind":"Binding","target":{"name":"n"}}`, "400 reason=BadRequest"},
		{"POST " + path, `{"apiVersion":"v1beta1","kind":"Pod","target":{"name":"n"}}`, "400 reason=BadRequest"},
		{"POST " + podsAt + "/gone/binding", `{}`, "404 reason=NotFound"},
		{"POST " + path, `{"metadata":{"namespace":"other"}}`, "400 reason=BadRequest"},
		{"POST " + path, `{"kind":"Pod","apiVersion":"v1"}`, "400 reason=BadRequest"},
		{"POST " + path + "?dryRun=Some", `{}`, "422 reason=Invalid details.kind=CreateOptions"},
		{"GET " + path, ``, "405 reason=MethodNotAllowed"},
	}...)
}

func TestConnect(t *testing.T) {
	x := newKinds(t)
	var got []string
	x.connected = func(sub *Subresource) { got = append(got, sub.Connect) }
	const path = podsAt + "/p/exec"
	x.expectAll([]ask{
		{"POST " + path + "?command=ls", "", "200"},
		{"GET " + path + "?command=ls", "", "200"},
		{"POST " + path, "", "400 reason=BadRequest"},
		{"POST " + path + "?command=ls&dryRun=All", "", "400 reason=BadRequest"},
		{"DELETE " + path + "?command=ls", "", "405 reason=MethodNotAllowed"},
	}...)
	// Reading is not enough to get a shell.
	x.mayCreate = apierrors.NewForbidden(corev1.Resource("pods"), "p", nil)
	x.expect("GET "+path+"?command=ls", "", "403 reason=Forbidden")
	if len(got) != 2 {
		t.Errorf("connected %v", got)
	}
}
