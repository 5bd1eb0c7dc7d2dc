package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"
)

const (
	asPartial     = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	asPartialList = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	protobufMedia = "application/vnd.kubernetes.protobuf"
)

// protobufOf decodes protobuf as clients do.
func protobufOf[T runtime.Object](t *testing.T, body []byte, into T) T {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, appsv1beta1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	obj, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(body, nil, into)
	if err != nil {
		t.Fatalf("%v: %q", err, body)
	}
	return obj.(T)
}

// three makes deployments a, b and c in namespace ns, of which b is paused, and one elsewhere. It returns the revisions
// of the first and of the last.
func (x *kinds) three() (first, last string) {
	x.t.Helper()
	doc := x.expect("POST "+deploys, deployment("a", `,"spec":{"replicas":1}`), "201")
	x.expect("POST "+deploys, deployment("b", `,"spec":{"replicas":2,"paused":true}`), "201")
	x.expect("POST "+deploys, deployment("c", `,"spec":{"replicas":3}`), "201")
	other := x.expect("POST /apis/apps/v1/namespaces/other/deployments", deployment("a", ``), "201")
	return at(doc, "metadata.resourceVersion"), at(other, "metadata.resourceVersion")
}

func TestReads(t *testing.T) {
	x := newKinds(t)
	first, last := x.three()
	x.expectAll([]ask{
		{"GET " + deploys + "/a", "", "200 kind=Deployment metadata.resourceVersion=" + first},
		{"GET " + deploys + "/a?resourceVersion=0", "", "200 kind=Deployment"},
		{"GET " + deploys + "/a?resourceVersion=" + last, "", "200 metadata.resourceVersion=" + first},
		{"GET " + deploys + "/a?resourceVersion=x", "", "500"},
		{"GET " + deploys + "/a?export=true", "", "400 reason=BadRequest"},
		{"GET " + deploys, "", "200 kind=DeploymentList apiVersion=apps/v1 items.#=3 metadata.resourceVersion=" + last},
		{"GET " + deploys + "?resourceVersion=0&limit=1", "", "200 items.#=3"},
		{"GET " + deploys + "?resourceVersion=x", "", "400 reason=BadRequest"},
		{"GET " + deploys + "?resourceVersionMatch=Exact", "", "422 reason=Invalid details.kind=ListOptions"},
		{"GET " + deploys + "?resourceVersionMatch=Exact&resourceVersion=" + first, "", "200 items.#=1 metadata.resourceVersion=" + first},
		{"GET " + deploys + "?resourceVersionMatch=NotOlderThan&resourceVersion=" + first, "", "200 items.#=3"},
		{"GET " + deploys + "?fieldSelector=spec.paused%3Dtrue", "", "200 items.#=1 items.0.metadata.name=b"},
		{"GET " + deploys + "?fieldSelector=spec.paused!%3Dtrue", "", "200 items.#=2"},
		{"GET " + deploys + "?fieldSelector=metadata.name%3Da", "", "200 items.#=1 items.0.metadata.namespace=ns"},
		{"GET " + deploys + "?fieldSelector=spec.color%3Dred", "", "400 reason=BadRequest"},
		{"GET " + deploys + "?labelSelector=a%3Db", "", "200 items.#=0"},
		{"GET /apis/apps/v1/deployments", "", "200 items.#=4 items.3.metadata.namespace=other"},
		{"GET /apis/apps/v1/deployments?fieldSelector=metadata.namespace%3Dother", "", "200 items.#=1"},
		{"GET /apis/apps/v1/deployments?fieldSelector=metadata.name%3Da", "", "200 items.#=2"},
	}...)
}

func TestPages(t *testing.T) {
	x := newKinds(t)
	x.three()
	doc := x.expect("GET "+deploys+"?limit=1", "", "200 items.#=1 items.0.metadata.name=a metadata.remainingItemCount=2")
	rev, token := at(doc, "metadata.resourceVersion"), at(doc, "metadata.continue")
	x.expect("DELETE "+deploys+"/b", "", "200")
	next := "GET " + deploys + "?limit=1&continue="
	doc = x.expect(next+token, "", "200 items.#=1 items.0.metadata.name=b metadata.resourceVersion="+rev) // it existed then
	x.expect(next+at(doc, "metadata.continue"), "", "200 items.#=1 items.0.metadata.name=c metadata.continue= metadata.remainingItemCount=")
	x.expect("GET "+deploys+"?limit=1&fieldSelector=spec.paused%3Dfalse", "", "200 items.#=1 metadata.remainingItemCount=")
	for _, bad := range []string{"x", encodeContinue("a", 0), encodeContinue("", 5), encodeContinue("../other/a", 5), encodeContinue("//a", 5)} {
		x.expect(next+url.QueryEscape(bad), "", "400 reason=BadRequest")
	}
	x.expect(next+token+"&resourceVersion="+rev, "", "400 reason=BadRequest")
}

// TestPagesEndWithCompaction goes on with a token after its revision was compacted: 410 with another token, which goes on at the
// newest revision, as the conformance tests want it.
func TestPagesEndWithCompaction(t *testing.T) {
	x := newKinds(t)
	x.three()
	token := at(x.expect("GET "+deploys+"?limit=1", "", "200 items.#=1"), "metadata.continue")
	first := at(x.expect("GET "+deploys+"?limit=1", "", "200"), "metadata.resourceVersion")
	x.expect("DELETE "+deploys+"/b", "", "200")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = x.store.RunCompaction(ctx, time.Millisecond) }()
	next := deploys + "?limit=1&continue="
	for deadline := time.Now().Add(time.Minute); x.do("GET "+next+token, "").Code == 200; {
		if time.Now().After(deadline) {
			t.Fatal("the token does not end")
		}
	}
	gone := x.expect("GET "+next+token, "", "410 reason=Expired")
	x.expect("GET "+deploys+"?resourceVersionMatch=Exact&resourceVersion="+first, "", "410 reason=Expired")
	x.expect("GET "+next+at(gone, "metadata.continue"), "", "200 items.#=1 items.0.metadata.name=c metadata.continue=")
}

// Each form of an answer, for one object and for several.
func TestForms(t *testing.T) {
	x := newKinds(t)
	_, last := x.three()
	x.expect("GET "+deploys+"/b", "", "200 kind=PartialObjectMetadata apiVersion=meta.k8s.io/v1 metadata.name=b spec=", "Accept: "+asPartial)
	x.expect("GET "+deploys, "", "200 kind=PartialObjectMetadataList items.#=3 items.1.metadata.name=b items.1.spec= metadata.resourceVersion="+last, "Accept: "+asPartialList)
	if body := x.do("GET "+deploys+"?labelSelector=none", "", "Accept: "+asPartialList).Body.String(); !strings.Contains(body, `"items":null}`) {
		t.Errorf("an empty list of metadata is %s", body)
	}
	x.expect("GET "+deploys+"/b", "", "200 kind=Table rows.#=1 rows.0.cells=b,2 columnDefinitions.1.name=Replicas rows.0.object.kind=PartialObjectMetadata", "Accept: "+asTable)
	x.expect("GET "+deploys+"?includeObject=Object", "", "200 rows.#=3 rows.2.cells=c,3 rows.2.object.kind=Deployment rows.2.object.spec.replicas=3", "Accept: "+asTable)
	x.expect("GET "+deploys+"?includeObject=None", "", "200 rows.0.object=", "Accept: "+asTable)
	x.expect("GET "+deploys+"?includeObject=Some", "", "400 reason=BadRequest", "Accept: "+asTable)
	x.expect("GET "+deploys+"/b/scale", "", "200 kind=Table rows.0.cells.0=b rows.0.cells.1=2 rows.0.cells.2=0", "Accept: "+asTable)
	x.expect("GET "+deploys+"/b/scale", "", "200 kind=PartialObjectMetadata metadata.name=b", "Accept: "+asPartial)
	x.expect("GET "+deploys, "", "406 reason=NotAcceptable", "Accept: text/html")
	x.expect("GET "+deploys, "", "406 reason=NotAcceptable", "Accept: application/json;as=Chart;v=v1;g=meta.k8s.io")
	x.expect("GET "+deploys+"/b", "", "200 metadata.managedFields=", `Accept: application/json;drop=metadata.managedFields`)
	x.expect("POST "+podsAt, `{"metadata":{"name":"p"}}`, "201 kind=Table rows.0.cells.0=p", "Accept: "+asTable)

	w := x.do("GET "+deploys+"/b", "", "Accept: application/yaml")
	var d appsv1.Deployment
	if err := yaml.UnmarshalStrict(w.Body.Bytes(), &d); err != nil || d.Name != "b" || w.Header().Get("Content-Type") != "application/yaml" {
		t.Errorf("YAML: %v %s", err, w.Body)
	}
	w = x.do("GET "+deploys+"?pretty=1", "")
	if !strings.HasPrefix(w.Body.String(), "{\n  \"") || !json.Valid(w.Body.Bytes()) {
		t.Errorf("pretty: %s", w.Body)
	}
}

func TestProtobuf(t *testing.T) {
	x := newKinds(t)
	_, last := x.three()
	accept := "Accept: " + protobufMedia
	d := protobufOf(t, x.do("GET "+deploys+"/b", "", accept).Body.Bytes(), &appsv1.Deployment{})
	if d.Name != "b" || *d.Spec.Replicas != 2 || d.ResourceVersion == "" {
		t.Errorf("got %v", d)
	}
	l := protobufOf(t, x.do("GET "+deploys+"?limit=2", "", accept).Body.Bytes(), &appsv1.DeploymentList{})
	if len(l.Items) != 2 || *l.Items[1].Spec.Replicas != 2 || l.ResourceVersion != last || l.Continue == "" || *l.RemainingItemCount != 1 {
		t.Errorf("got %v", l)
	}
	const old = "/apis/apps/v1beta1/namespaces/ns/deployments"
	b := protobufOf(t, x.do("GET "+old, "", accept).Body.Bytes(), &appsv1beta1.DeploymentList{})
	if len(b.Items) != 3 || *b.Items[2].Spec.Replicas != 3 {
		t.Errorf("got %v", b)
	}
	p := protobufOf(t, x.do("GET "+deploys, "", "Accept: "+protobufMedia+";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").Body.Bytes(), &metav1.PartialObjectMetadataList{})
	if len(p.Items) != 3 || p.Items[2].Name != "c" {
		t.Errorf("got %v", p)
	}
	for what, accept := range map[string]string{"GET " + deploys + "/b": protobufMedia + ";as=Table;v=v1;g=meta.k8s.io", "GET " + widgAt: protobufMedia} {
		if w := x.do(what, "", "Accept: "+accept); w.Code != http.StatusNotAcceptable {
			t.Errorf("%s as %s: %d %q", what, accept, w.Code, w.Body)
		}
	}

	// An object that was read can be written again.
	d.Spec.Replicas, d.Name, d.ResourceVersion, d.UID = new(int32), "d", "", ""
	d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	body, err := marshalProtobuf(d)
	if err != nil {
		t.Fatal(err)
	}
	var whole strings.Builder
	whole.Write(appendEnvelope(nil, typeMeta(d.GroupVersionKind()), len(body)))
	whole.Write(body)
	whole.Write(envelopeTail)
	x.expect("POST "+deploys, whole.String(), "201 metadata.name=d spec.replicas=0", "Content-Type: "+protobufMedia)
	x.expect("POST "+deploys, "k8s", "400 reason=BadRequest", "Content-Type: "+protobufMedia)
	if w := x.do("DELETE "+deploys+"/d", "", accept); w.Code != http.StatusOK || protobufOf(t, w.Body.Bytes(), &metav1.Status{}).Status != metav1.StatusSuccess {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// Without a watch cache, kube-apiserver pages lists of any revision too.
func TestPagesAtZero(t *testing.T) {
	x := newKinds(t)
	x.three()
	for _, ep := range x.eps {
		ep.e.PagesAtZero = true
	}
	for _, match := range []string{"", "&resourceVersionMatch=NotOlderThan"} {
		doc := x.expect("GET "+deploys+"?resourceVersion=0&limit=2"+match, "", "200 items.#=2 metadata.remainingItemCount=1")
		x.expect("GET "+deploys+"?limit=2&continue="+at(doc, "metadata.continue"), "", "200 items.#=1")
		x.expect("GET "+deploys+"?resourceVersion=0"+match, "", "200 items.#=3")
	}
}

// TestMetaVersions asks for kinds of meta.k8s.io in both of its versions: what is in the answer is of the version that was asked for.
func TestMetaVersions(t *testing.T) {
	x := newKinds(t)
	x.three()
	for _, version := range []string{"v1", "v1beta1"} {
		other := map[string]string{"v1": "meta.k8s.io/v1beta1", "v1beta1": `meta.k8s.io/v1"`}[version]
		for _, path := range []string{deploys, deploys + "/a", deploys + "?limit=1", deploys + "?watch=1"} {
			as := "PartialObjectMetadata"
			if path != deploys+"/a" && !strings.Contains(path, "watch") {
				as += "List"
			}
			for accept, times := range map[string]int{
				"application/json;g=meta.k8s.io;v=" + version + ";as=Table": 2, "application/json;g=meta.k8s.io;v=" + version + ";as=" + as: 1,
				protobufMedia + ";g=meta.k8s.io;v=" + version + ";as=" + as: 1,
			} {
				body := x.begun("GET "+path, accept)
				if strings.Count(body, "meta.k8s.io/"+version) < times || strings.Contains(body, other) {
					t.Errorf("GET %s as %s: %q", path, accept, body)
				}
			}
			w := x.do("GET "+path, "", "Accept: "+protobufMedia+";g=meta.k8s.io;as=Table;v="+version)
			if w.Code != http.StatusNotAcceptable || strings.Contains(w.Body.String(), "stream=watch") {
				t.Errorf("GET %s as a table in protobuf: %d %s", path, w.Code, w.Body)
			}
		}
	}
}

// begun is what an answer begins with: all of it, or of a watch its first event.
func (x *kinds) begun(what, accept string) string {
	x.t.Helper()
	ctx, cancel := context.WithCancel(x.t.Context())
	defer cancel()
	var body bytes.Buffer
	w := &writer{header: http.Header{}, wrote: func(p []byte) error {
		body.Write(p)
		if strings.Contains(what, "watch=") {
			cancel()
		}
		return nil
	}}
	x.serve(w, x.request(ctx, what, "", "Accept: "+accept))
	return body.String()
}
