package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bundlev1 "github.com/kanzen-io/kanzen/internal/engine/bundle/v1"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

const bundlesPath = "/apis/bundle.kanzen.io/v1/bundles"

// bundleOf is the body of a bundle of items, each a verb and an object.
func bundleOf(t testing.TB, items ...string) []byte {
	t.Helper()
	var all []string
	for _, i := range items {
		verb, object, _ := strings.Cut(i, " ")
		all = append(all, fmt.Sprintf(`{"verb":%q,"object":%s}`, verb, object))
	}
	body := `{"apiVersion":"bundle.kanzen.io/v1","kind":"Bundle","spec":{"items":[` + strings.Join(all, ",") + `]}}`
	if !json.Valid([]byte(body)) {
		t.Fatal(body)
	}
	return []byte(body)
}

const (
	teamNamespace  = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}`
	teamMap        = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"team"},"data":{"k":"1"}}`
	teamService    = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":"team"},"spec":{"ports":[{"port":80}]}}`
	teamQuota      = `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q","namespace":"team"},"spec":{"hard":{"configmaps":"2"}}}`
	teamDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.team.example.com"},
		"spec":{"group":"team.example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","maximum":9}}}}}}}]}}`
)

func widget(name string, n int) string {
	return fmt.Sprintf(`{"apiVersion":"team.example.com/v1","kind":"Widget","metadata":{"name":%q,"namespace":"team"},"spec":{"n":%d}}`, name, n)
}

// A namespace, what lies in it, a definition and its objects are written as one.
func TestBundle(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	var b bundlev1.Bundle
	answer := do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json",
		bundleOf(t, "apply "+teamNamespace, "apply "+teamMap, "create "+teamService, "apply "+teamDefinition, "apply "+widget("w", 3)), http.StatusCreated)
	if err := json.Unmarshal(answer, &b); err != nil {
		t.Fatal(err)
	}
	for n, path := range []string{"/api/v1/namespaces/team", "/api/v1/namespaces/team/configmaps/a", "/api/v1/namespaces/team/services/s",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.team.example.com", "/apis/team.example.com/v1/namespaces/team/widgets/w"} {
		var got, told struct {
			Metadata struct{ Name, UID, ResourceVersion string }
		}
		if err := json.Unmarshal(do(t, s, http.MethodGet, path, "", "application/json", nil, http.StatusOK), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b.Status.Items[n].Object.Raw, &told); err != nil {
			t.Fatal(err)
		}
		if told != got && n != 3 || got.Metadata.ResourceVersion != b.Status.ResourceVersion && n != 3 || b.Status.Items[n].Result != bundlev1.Created {
			t.Errorf("%s: %+v, told %s %+v at %s", path, got, b.Status.Items[n].Result, told, b.Status.ResourceVersion)
		}
	}
	// The address belongs to the service: it cannot be given to another.
	var svc struct{ Spec struct{ ClusterIP string } }
	if err := json.Unmarshal(b.Status.Items[2].Object.Raw, &svc); err != nil || svc.Spec.ClusterIP == "" {
		t.Fatal(svc, err)
	}
	do(t, s, http.MethodPost, "/api/v1/namespaces/default/services", "application/json", "application/json",
		fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"clusterIP":%q,"ports":[{"port":80}]}}`, svc.Spec.ClusterIP), http.StatusUnprocessableEntity)
	// What changes nothing has no revision of its own.
	answer = do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json", bundleOf(t, "apply "+teamMap, "delete "+teamService), http.StatusCreated)
	if err := json.Unmarshal(answer, &b); err != nil || b.Status.Items[0].Result != bundlev1.Unchanged || b.Status.Items[1].Result != bundlev1.Deleted {
		t.Errorf("%v %s", err, answer)
	}
	do(t, s, http.MethodGet, "/api/v1/namespaces/team/services/s", "", "application/json", nil, http.StatusNotFound)
}

// If one item is refused, nothing is written, and the reasons of all are told.
func TestBundleRefused(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	refused := string(do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json",
		bundleOf(t, "apply "+teamNamespace, "apply "+teamQuota, "apply "+teamDefinition, "apply "+teamMap, "apply "+widget("large", 10), "apply "+strings.Replace(teamMap, `"a"`, `"b"`, 1),
			"create "+teamNamespace), http.StatusUnprocessableEntity))
	for _, want := range []string{"spec.items[4]", "should be less than or equal to 9", "spec.items[6]", "already exists", "and 1 more"} {
		if !strings.Contains(refused, want) {
			t.Errorf("%s does not say %q", refused, want)
		}
	}
	do(t, s, http.MethodGet, "/api/v1/namespaces/team", "", "application/json", nil, http.StatusNotFound)
	for body, want := range map[string]string{
		`{"items":[]}`: "a bundle has 1 to 500 items, not 0",
		`{"items":[{"object":{"kind":"Pod","apiVersion":"v1"}}]}`:                                                                "the object has no name",
		`{"items":[{"verb":"get","object":{"kind":"Pod","apiVersion":"v1"}}]}`:                                                   "unknown verb",
		`{"items":[{"object":{"metadata":{"name":"x"}}}]}`:                                                                       "no apiVersion",
		`{"items":[{"object":{"kind":"Bundle","apiVersion":"bundle.kanzen.io/v1","metadata":{"name":"x"}}}]}`:                    "a bundle in a bundle",
		`{"items":[{"verb":"delete","subresource":"status","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}}]}`: "a subresource is applied or updated",
	} {
		answer := do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json", []byte(`{"apiVersion":"bundle.kanzen.io/v1","kind":"Bundle","spec":`+body+`}`), http.StatusBadRequest)
		if !strings.Contains(string(answer), want) {
			t.Errorf("%s: %s", body, answer)
		}
	}
	do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json",
		bundleOf(t, `apply {"apiVersion":"none.example.com/v1","kind":"None","metadata":{"name":"x"}}`), http.StatusNotFound)
}

// A dry run writes nothing. The revision does not tell: a server that has just started goes on writing.
func TestBundleDryRun(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	answer := do(t, s, http.MethodPost, bundlesPath+"?dryRun=All", "application/json", "application/json", bundleOf(t, "apply "+teamNamespace, "apply "+teamMap), http.StatusCreated)
	if !strings.Contains(string(answer), `"result":"created"`) {
		t.Errorf("%s", answer)
	}
	do(t, s, http.MethodGet, "/api/v1/namespaces/team", "", "application/json", nil, http.StatusNotFound)
	// What does not fit into a transaction is refused as it is without dryRun.
	var large []string
	for n := range 3 {
		large = append(large, fmt.Sprintf(`create {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d"},"data":{"k":%q}}`, n, strings.Repeat("x", 600<<10)))
	}
	rehearsed := do(t, s, http.MethodPost, bundlesPath+"?dryRun=All", "application/json", "application/json", bundleOf(t, large...), http.StatusRequestEntityTooLarge)
	refused := do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json", bundleOf(t, large...), http.StatusRequestEntityTooLarge)
	if string(rehearsed) != string(refused) {
		t.Errorf("%s\n%s", rehearsed, refused)
	}
	do(t, s, http.MethodPost, bundlesPath+"?dryRun=All", "application/json", "application/json", bundleOf(t, large[:2]...), http.StatusCreated)
	for n := range 3 {
		do(t, s, http.MethodGet, fmt.Sprintf("/api/v1/namespaces/default/configmaps/m%d", n), "", "application/json", nil, http.StatusNotFound)
	}
}

// BenchmarkBundle writes 200 ConfigMaps: by a bundle, and by applies of their own.
func BenchmarkBundle(b *testing.B) {
	const each = 200
	object := func(n int) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m%d","namespace":"default"},"data":{"k":%q}}`, n, strings.Repeat("x", 500))
	}
	b.Run("bundle", func(b *testing.B) {
		s, n := start(b), 0
		began := cpu(b)
		for b.Loop() {
			var items []string
			for range each {
				items = append(items, "apply "+object(n))
				n++
			}
			do(b, s, http.MethodPost, bundlesPath, "application/json", "application/json", bundleOf(b, items...), http.StatusCreated)
		}
		b.ReportMetric(float64(cpu(b)-began)/float64(b.N)/1e6, "cpu-ms/op")
	})
	b.Run("single", func(b *testing.B) {
		s, n := start(b), 0
		began := cpu(b)
		for b.Loop() {
			for range each {
				do(b, s, http.MethodPatch, fmt.Sprintf("/api/v1/namespaces/default/configmaps/m%d?fieldManager=m", n), "application/apply-patch+yaml", "application/json", []byte(object(n)), http.StatusCreated)
				n++
			}
		}
		b.ReportMetric(float64(cpu(b)-began)/float64(b.N)/1e6, "cpu-ms/op")
	})
}

// The audit log has the items of a bundle, with what has become of it, beside what the server itself does for a definition meanwhile.
func TestBundleAudit(t *testing.T) {
	alone(t, testing.Short())
	log := filepath.Join(t.TempDir(), "audit.log")
	s := startWith(t, func(c *config.Config) { c.AuditLog.Path, c.AuditLogDelivery.Mode = log, "blocking" })
	do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json", bundleOf(t, "apply "+teamNamespace, "apply "+teamDefinition, "apply "+widget("w", 3)), http.StatusCreated)
	do(t, s, http.MethodPost, bundlesPath, "application/json", "application/json", bundleOf(t, "apply "+teamMap, "create "+teamNamespace), http.StatusConflict)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var e struct {
			AuditID, Stage, RequestURI string
			Annotations                map[string]string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Annotations["bundle.kanzen.io/bundle"] != "" && e.Stage == "ResponseComplete" {
			path, _, _ := strings.Cut(e.RequestURI, "?")
			found[path+" written "+e.Annotations["bundle.kanzen.io/written"]] = true
		}
	}
	for _, want := range []string{"/api/v1/namespaces/team written true", "/apis/team.example.com/v1/namespaces/team/widgets/w written true",
		"/api/v1/namespaces/team/configmaps/a written false", "/api/v1/namespaces written false"} {
		if !found[want] {
			t.Errorf("no %q among %v", want, found)
		}
	}
}

// TestBundleHistory has the flight recorder tell of each object of a bundle who has written it, and nothing of what was not written.
func TestBundleHistory(t *testing.T) {
	alone(t, testing.Short())
	s := start(t)
	do(t, s, http.MethodPost, bundlesPath, "application/json", "", bundleOf(t, "apply "+teamNamespace, "apply "+teamMap, "create "+teamService), http.StatusCreated)
	var b bundlev1.Bundle
	answer := do(t, s, http.MethodPost, bundlesPath, "application/json", "",
		bundleOf(t, "apply "+strings.Replace(teamMap, `"k":"1"`, `"k":"2"`, 1), "delete "+teamService, "apply "+teamQuota), http.StatusCreated)
	if err := json.Unmarshal(answer, &b); err != nil {
		t.Fatal(err)
	}
	do(t, s, http.MethodPost, bundlesPath, "application/json", "",
		bundleOf(t, "apply "+strings.Replace(teamMap, `"k":"1"`, `"k":"3"`, 1), `apply {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"A","namespace":"team"}}`), http.StatusUnprocessableEntity)
	history := func(resource, name string) (out []string) {
		var h struct {
			Status struct {
				Entries []struct {
					User, Verb, Operation, ResourceVersion string
					Fields                                 []struct{ Path, Old, New string }
				}
			}
		}
		if err := json.Unmarshal(do(t, s, http.MethodPost, "/apis/flightrecorder.kanzen.io/v1alpha1/objecthistories", "application/json", "",
			fmt.Appendf(nil, `{"spec":{"resource":%q,"namespace":"team","name":%q}}`, resource, name), http.StatusCreated), &h); err != nil {
			t.Fatal(err)
		}
		for _, e := range h.Status.Entries {
			text := e.User + " " + e.Operation
			for _, f := range e.Fields {
				text += fmt.Sprintf(" %s:%s→%s", f.Path, f.Old, f.New)
			}
			if e.ResourceVersion == b.Status.ResourceVersion {
				text += " at the revision"
			}
			out = append(out, text)
		}
		return out
	}
	for _, q := range []struct {
		resource, name string
		want           []string
	}{
		{"configmaps", "a", []string{"admin Created", `admin Updated data.k:"1"→"2" at the revision`}},
		{"services", "s", []string{"admin Created", "admin Deleted at the revision"}},
		{"resourcequotas", "q", []string{"admin Created at the revision"}},
	} {
		var got []string
		eventually(t, func() bool { got = history(q.resource, q.name); return len(got) >= len(q.want) })
		if !slices.Equal(got, q.want) {
			t.Errorf("%s %s: %q, want %q", q.resource, q.name, got, q.want)
		}
	}
}
