package engine

import (
	"encoding/binary"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

// newExtended is newKinds with all extensions.
func newExtended(t *testing.T) *kinds {
	t.Helper()
	x := newKinds(t)
	on, err := extensions.Parse([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	for _, ep := range x.eps {
		ep.e.Extensions = on
	}
	return x
}

func fieldsQuery(paths string) string { return "?fields=" + url.QueryEscape(paths) }

func TestProjections(t *testing.T) {
	x := newExtended(t)
	x.expect("POST "+deploys, deployment("a", `,"spec":{"replicas":3}`), "201")
	x.expect("POST "+deploys, deployment("b", ``), "201")
	x.expect("POST /apis/example.com/v1/namespaces/ns/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","labels":{"l":"1"}}}`, "201")
	list := func(path, query string) string {
		body := x.do("GET "+path+query, "").Body.String()
		_, items, _ := strings.Cut(body, `"items":`)
		return strings.TrimSpace(items)
	}
	for query, want := range map[string]string{
		"metadata.name,spec.replicas":          `[{"metadata":{"name":"a"},"spec":{"replicas":3}},{"metadata":{"name":"b"},"spec":{"replicas":1}}]}`,
		"spec.replicas,metadata.name&limit=1":  `[{"metadata":{"name":"a"},"spec":{"replicas":3}}]}`,
		"metadata.labels.none":                 `[{"metadata":{}},{"metadata":{}}]}`,
		"spec.template.spec.containers.name":   ``,
		"metadata.name&labelSelector=nobody":   `[]}`,
		"metadata.name,metadata.namespace":     `[{"metadata":{"name":"a","namespace":"ns"}},{"metadata":{"name":"b","namespace":"ns"}}]}`,
		"metadata.ownerReferences.uid&limit=1": `[{"metadata":{}}]}`,
	} {
		paths, rest, _ := strings.Cut(query, "&")
		if rest != "" {
			rest = "&" + rest
		}
		if got := list(deploys, fieldsQuery(paths)+rest); want != "" && got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
	if got := list("/apis/example.com/v1/widgets", fieldsQuery("metadata.labels")); got != `[{"metadata":{"labels":{"l":"1"}}}]}` {
		t.Errorf("widgets: %s", got)
	}
	for query, want := range map[string]string{
		fieldsQuery("metadata.nam"):                              "400 fields: deployments of apps/v1 have no \"metadata.nam\"",
		fieldsQuery("spec..replicas"):                            "have no \"spec..replicas\"",
		fieldsQuery("metadata.name.first"):                       "have no",
		fieldsQuery("metadata.name") + "&watch=1&sort=spec":      "sort: a watch has the order of events",
		fieldsQuery(strings.Repeat("a,", 1) + "metadata.name.x"): "have no",
	} {
		rec := x.do("GET "+deploys+query, "")
		if text := rec.Body.String(); rec.Code != 400 || !strings.Contains(strings.ReplaceAll(text, `\"`, `"`), strings.TrimPrefix(want, "400 ")) {
			t.Errorf("%s: %d %s", query, rec.Code, text)
		}
	}
	for _, accept := range []string{asPartialList, asTable, "application/yaml"} {
		if rec := x.do("GET "+deploys+fieldsQuery("metadata.name"), "", "Accept: "+accept); rec.Code != 400 {
			t.Errorf("%s: %d %s", accept, rec.Code, rec.Body)
		}
	}
	got := x.watched("fields=spec.replicas", "application/json", func(event map[string]any) string {
		return at(event, "object.kind") + " " + at(event, "object.spec.replicas") + " " + at(event, "object.metadata.name")
	}, func() {}, func() { x.expect("POST "+deploys, deployment("c", `,"spec":{"replicas":5}`), "201") })
	x.want(got, "ADDED Deployment 3 ", "ADDED Deployment 1 ", "ADDED Deployment 5 ")
}

// TestProjectionsInProtobuf compares lists and watches in protobuf, cut to fields, with those in JSON.
func TestProjectionsInProtobuf(t *testing.T) {
	x := newExtended(t)
	x.expect("POST "+deploys, deployment("a", `,"spec":{"replicas":3}`), "201")
	x.expect("POST "+deploys, deployment("b", ``), "201")
	for _, paths := range []string{"metadata.name,spec.replicas", "metadata.resourceVersion", "metadata", "spec.template.spec.containers.image,kind",
		"metadata.labels.none", "status", "spec.selector.matchLabels"} {
		query := fieldsQuery(paths)
		var want appsv1.DeploymentList
		if err := json.Unmarshal(x.do("GET "+deploys+query, "").Body.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		got := protobufOf(t, x.do("GET "+deploys+query, "", "Accept: "+protobufMedia).Body.Bytes(), &appsv1.DeploymentList{})
		for _, l := range []*appsv1.DeploymentList{got, &want} {
			l.TypeMeta = metav1.TypeMeta{}
			for n := range l.Items { // in a list, protobuf has no type
				l.Items[n].TypeMeta = metav1.TypeMeta{}
			}
		}
		if !apiequality.Semantic.DeepEqual(got, &want) {
			t.Errorf("%s: got %+v\nwant %+v", paths, got, &want)
		}
		event := []byte(x.begun("GET "+deploys+query+"&watch=1", protobufMedia+";stream=watch"))
		d := protobufOf(t, watchedIn(t, event), &appsv1.Deployment{})
		if d.Kind != "Deployment" || d.ResourceVersion == "" {
			t.Errorf("%s: a watch has %+v", paths, d)
		}
		one := want.Items[0]
		one.ResourceVersion, one.TypeMeta = d.ResourceVersion, d.TypeMeta
		if !apiequality.Semantic.DeepEqual(d, &one) {
			t.Errorf("%s: a watch has %+v\nwant %+v", paths, d, &one)
		}
	}
	for path, code := range map[string]int{
		deploys + fieldsQuery("metadata.nam"):                         400,
		"/apis/example.com/v1/widgets" + fieldsQuery("metadata.name"): 406,
	} {
		if rec := x.do("GET "+path, "", "Accept: "+protobufMedia); rec.Code != code {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}

// watchedIn returns the object, in its envelope, of the first event of a watch in protobuf.
func watchedIn(t *testing.T, stream []byte) []byte {
	t.Helper()
	var e metav1.WatchEvent
	if err := e.Unmarshal(stream[4 : 4+binary.BigEndian.Uint32(stream)]); err != nil {
		t.Fatal(err)
	}
	return e.Object.Raw
}
