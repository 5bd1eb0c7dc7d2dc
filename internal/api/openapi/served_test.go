package openapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestResourceOf(t *testing.T) {
	for path, want := range map[string][2]string{
		"/version/":                          {"version", ""},
		"/api/":                              {"api", ""},
		"/api/v1/":                           {"api/v1", ""},
		"/apis/apps/":                        {"apis/apps", ""},
		"/apis/apps/v1/":                     {"apis/apps/v1", ""},
		"/apis/apps/v1/deployments":          {"apis/apps/v1", "deployments"},
		"/apis/apps/v1/watch/deployments":    {"apis/apps/v1", "deployments"},
		"/api/v1/namespaces":                 {"api/v1", "namespaces"},
		"/api/v1/namespaces/{name}":          {"api/v1", "namespaces"},
		"/api/v1/namespaces/{name}/finalize": {"api/v1", "namespaces/finalize"},
		"/api/v1/watch/namespaces/{name}":    {"api/v1", "namespaces"},
		"/api/v1/namespaces/{namespace}/pods/{name}/exec":             {"api/v1", "pods/exec"},
		"/api/v1/namespaces/{namespace}/services/{name}/proxy/{path}": {"api/v1", "services/proxy"},
		"/apis/batch/v1/watch/namespaces/{namespace}/cronjobs/{name}": {"apis/batch/v1", "cronjobs"},
	} {
		if document, resource := ResourceOf(path); document != want[0] || resource != want[1] {
			t.Errorf("%s: %q of %q, want %q", path, resource, document, want)
		}
	}
}

// What is off is in no document, nor are definitions that only it needs; what is added for the same version stays.
func TestServedNarrows(t *testing.T) {
	served := every()
	served.Version = "1.36"
	served.Resources["apis/batch/v1"] = slices.DeleteFunc(served.Resources["apis/batch/v1"], func(r string) bool { return strings.HasPrefix(r, "cronjobs") })
	s, err := New(time.Time{}, served)
	if err != nil {
		t.Fatal(err)
	}
	own := Part{V2Hash: "x", V2: func() (*Fragment, error) {
		return &Fragment{Paths: map[string]json.RawMessage{"/apis/batch/v1/mine": json.RawMessage(`{}`)},
			Definitions: map[string]json.RawMessage{"mine": json.RawMessage(`{"$ref":"#/definitions/io.k8s.api.batch.v1.CronJobSpec"}`)}}, nil
	}}
	d, _ := s.Document("apis/batch/v1")
	v3 := string(must(t)(d.JSON()))
	v2 := string(must(t)(s.v2(false)))
	with := string(must(t)(s.With(own).v2(false)))
	for _, c := range []struct{ name, doc, has, hasNot string }{
		{"v3", v3, "io.k8s.api.batch.v1.Job", "cronjobs"},
		{"v3", v3, `"version":"1.36"`, "io.k8s.api.batch.v1.CronJob"},
		{"v2", v2, "/apis/batch/v1/jobs", "/apis/batch/v1/cronjobs"},
		{"v2", v2, "io.k8s.api.batch.v1.JobSpec", "io.k8s.api.batch.v1.CronJobSpec"},
		{"v2 with a part", with, "io.k8s.api.batch.v1.CronJobSpec", `io.k8s.api.batch.v1.CronJobStatus"`},
		{"v2 with a part", with, "/apis/batch/v1/mine", "/apis/batch/v1/cronjobs"},
	} {
		if !strings.Contains(c.doc, c.has) || strings.Contains(c.doc, c.hasNot) {
			t.Errorf("%s: has %q: %t, has %q: %t", c.name, c.has, strings.Contains(c.doc, c.has), c.hasNot, strings.Contains(c.doc, c.hasNot))
		}
	}
	whole := newSet(t)
	if w, _ := whole.Document("apis/batch/v1"); w.Hash == d.Hash || whole.v2Hash == s.v2Hash {
		t.Error("other documents have the same hashes")
	}
	if w, _ := whole.Document("apis/apps/v1"); w.Hash != whole.ix.V3["apis/apps/v1"] {
		t.Error("a document that has all has another hash")
	}
}
