package engine

import (
	"net/url"
	"strings"
	"testing"

	"github.com/kanzen-io/kanzen/internal/extensions"
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
	for _, accept := range []string{protobufMedia, asPartialList, "application/yaml"} {
		if rec := x.do("GET "+deploys+fieldsQuery("metadata.name"), "", "Accept: "+accept); rec.Code != 400 {
			t.Errorf("%s: %d %s", accept, rec.Code, rec.Body)
		}
	}
	got := x.watched("fields=spec.replicas", "application/json", func(event map[string]any) string {
		return at(event, "object.kind") + " " + at(event, "object.spec.replicas") + " " + at(event, "object.metadata.name")
	}, func() {}, func() { x.expect("POST "+deploys, deployment("c", `,"spec":{"replicas":5}`), "201") })
	x.want(got, "ADDED Deployment 3 ", "ADDED Deployment 1 ", "ADDED Deployment 5 ")
}
