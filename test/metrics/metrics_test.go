// Package metrics asks a used server for its metrics: those of kube-apiserver are there with its labels, or
// docs/differences.md says why not.
package metrics

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

var withPeer = flag.Bool("peer", false, "ask kube-apiserver too")

// series is one line of a scrape.
type series struct {
	name   string
	labels map[string]string
}

// scrape is a server's metrics: their types and series.
type scrape struct {
	types  map[string]string
	series []series
}

var (
	typeLine   = regexp.MustCompile(`^# TYPE (\S+) (\S+)`)
	seriesLine = regexp.MustCompile(`^([a-zA-Z0-9_:]+)(?:\{(.*)\})? `)
	label      = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

func scraped(t *testing.T, c *rest.Config) scrape {
	t.Helper()
	raw, err := kubernetes.NewForConfigOrDie(c).RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := scrape{types: map[string]string{}}
	for line := range strings.Lines(string(raw)) {
		if m := typeLine.FindStringSubmatch(line); m != nil {
			out.types[m[1]] = m[2]
		} else if m := seriesLine.FindStringSubmatch(line); m != nil {
			out.series = append(out.series, series{m[1], labelsOf(m[2])})
		}
	}
	return out
}

func labelsOf(text string) map[string]string {
	out := map[string]string{}
	for _, m := range label.FindAllStringSubmatch(text, -1) {
		out[m[1]] = strings.ReplaceAll(m[2], `\\`, `\`)
	}
	return out
}

// labelsOf returns the names of the labels of a metric, without those of histograms.
func (s scrape) labelsOf(metric string) []string {
	names := map[string]bool{}
	for _, x := range s.series {
		base := x.name
		if t := s.types[metric]; t == "histogram" || t == "summary" {
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, end)
			}
		}
		if base == metric {
			for l := range x.labels {
				names[l] = true
			}
		}
	}
	delete(names, "le")
	return slices.Sorted(maps.Keys(names))
}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[{"name":"v1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// webhook returns a configuration of a webhook whose answers are no reviews, and which fails open.
func webhook(t *testing.T) []byte {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return fmt.Appendf(nil, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"mute"},
"webhooks":[{"name":"mute.example.com","clientConfig":{"url":%q,"caBundle":%q},"failurePolicy":"Ignore","sideEffects":"None",
"timeoutSeconds":2,"admissionReviewVersions":["v1"],"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["UPDATE"],"resources":["configmaps"]}]}]}`,
		s.URL, base64.StdEncoding.EncodeToString(ca))
}

// use makes a server do something of each kind. It ends what it has begun when the test ends.
func use(t *testing.T, c *rest.Config) {
	t.Helper()
	ctx := t.Context()
	r := kubernetes.NewForConfigOrDie(c).RESTClient()
	do := func(q *rest.Request) { _ = q.Do(ctx).Error() } // refusals are wanted too
	must := func(q *rest.Request) {
		t.Helper()
		if err := q.Do(ctx).Error(); err != nil {
			t.Fatal(err)
		}
	}
	const maps = "/api/v1/namespaces/default/configmaps"
	cm := func(data string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"` + data + `"}}`
	}
	watch, err := r.Get().AbsPath(maps).Param("watch", "1").Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watch.Close() })
	must(r.Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").SetHeader("Content-Type", "application/json").Body([]byte(definition)))
	must(r.Post().AbsPath("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations").Body(webhook(t)))
	must(r.Post().AbsPath(maps).Body([]byte(cm("1"))))
	if _, err := watch.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	must(r.Get().AbsPath(maps + "/a"))
	must(r.Get().AbsPath(maps))
	must(r.Get().AbsPath("/api/v1/configmaps"))
	must(r.Put().AbsPath(maps + "/a").Body([]byte(cm("2"))))
	must(r.Patch("application/merge-patch+json").AbsPath(maps + "/a").Body([]byte(`{"data":{"b":"c"}}`)))
	listing, err := r.Get().AbsPath(maps).Param("watch", "1").Param("sendInitialEvents", "true").Param("allowWatchBookmarks", "true").
		Param("resourceVersionMatch", "NotOlderThan").Param("timeoutSeconds", "1").Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listing.Close() })
	if _, err := io.Copy(io.Discard, listing); err != nil { // until the watch ends, which counts it
		t.Fatal(err)
	}
	event := fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"name":"e%d"},"involvedObject":{"kind":"ConfigMap","name":"a","namespace":"default"}}`, 1)
	must(r.Post().AbsPath("/api/v1/namespaces/default/events").Body([]byte(event)))
	do(r.Post().AbsPath("/api/v1/namespaces/default/services").Body([]byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)))
	do(r.Post().AbsPath("/api/v1/namespaces/default/pods").Param("dryRun", "All").Body([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)))
	do(r.Get().AbsPath("/apis/autoscaling/v1/componentstatuses"))
	do(r.Get().AbsPath("/api/v1/componentstatuses")) // deprecated
	for _, p := range []string{"/api", "/apis", "/livez", "/openapi/v3", "/api/v1/namespaces/default/gone", "/apis/gone.example.com/v1/gone"} {
		do(r.Get().AbsPath(p))
	}
	stranger := rest.AnonymousClientConfig(c)
	stranger.BearerToken = "nobody"
	do(kubernetes.NewForConfigOrDie(stranger).RESTClient().Get().AbsPath(maps))
	awaitDefinition(t, r)
	must(r.Post().AbsPath("/apis/example.com/v1/namespaces/default/foos").Body([]byte(`{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"x"}}`)))
	must(r.Delete().AbsPath("/api/v1/namespaces/default/events/e1"))
}

func awaitDefinition(t *testing.T, r rest.Interface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for r.Get().AbsPath("/apis/example.com/v1/namespaces/default/foos").Do(ctx).Error() != nil {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the custom resource is not served")
		}
	}
}

// used starts a server that listens, with all its controllers, and uses it.
func used(t *testing.T) *rest.Config {
	t.Helper()
	c := kanzentest.Start(t, kanzentest.Listen()).SocketConfig()
	use(t, c)
	return c
}

// reasons are the metrics that docs/differences.md says why they are not there.
func reasons(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var out []string
	for line := range strings.Lines(section) {
		if names, reason, ok := strings.Cut(strings.Trim(line, "|\n"), "|"); ok && strings.TrimSpace(reason) != "" {
			for _, m := range regexp.MustCompile("`([a-z0-9_*]+)`").FindAllStringSubmatch(names, -1) {
				out = append(out, m[1])
			}
		}
	}
	return out
}

func TestFacts(t *testing.T) {
	var facts []struct {
		Name, Type string
		Labels     []string
	}
	data, err := os.ReadFile("testdata/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &facts); err != nil || len(facts) < 200 {
		t.Fatal(len(facts), err)
	}
	got, listed, served := scraped(t, used(t)), reasons(t), 0
	unused := map[string]bool{}
	for _, l := range listed {
		unused[l] = true
	}
	for _, f := range facts {
		n := slices.IndexFunc(listed, func(pattern string) bool { ok, _ := path.Match(pattern, f.Name); return ok })
		switch {
		case n >= 0:
			unused[listed[n]] = false
			if got.types[f.Name] != "" {
				t.Errorf("%s is served, but docs/differences.md says why not", f.Name)
			}
			continue
		case got.types[f.Name] == "":
			t.Errorf("%s is neither served nor listed in docs/differences.md", f.Name)
			continue
		case got.types[f.Name] != f.Type:
			t.Errorf("%s is a %s, want a %s", f.Name, got.types[f.Name], f.Type)
		}
		slices.Sort(f.Labels)
		if have := got.labelsOf(f.Name); !slices.Equal(have, f.Labels) {
			t.Errorf("%s has labels %v, want %v", f.Name, have, f.Labels)
		}
		served++
	}
	for l, is := range unused {
		if is {
			t.Errorf("docs/differences.md lists %s, which kube-apiserver does not have", l)
		}
	}
	t.Logf("%d of %d served", served, len(facts))
}

func TestDashboards(t *testing.T) {
	data, err := os.ReadFile("testdata/dashboards.txt")
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, got scrape) {
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			name, rest, _ := strings.Cut(line, " ")
			if want := labelsOf(rest); !slices.ContainsFunc(got.series, func(s series) bool { return s.name == name && agrees(want, s.labels) }) {
				t.Errorf("no series %s", line)
			}
		}
	}
	t.Run("kanzen", func(t *testing.T) { check(t, scraped(t, used(t))) })
	if *withPeer {
		t.Run("kube-apiserver", func(t *testing.T) {
			c := peer.Start(t)
			use(t, c)
			check(t, scraped(t, c))
		})
	}
}

func agrees(want, labels map[string]string) bool {
	for l, pattern := range want {
		value, ok := labels[l]
		if !ok || !regexp.MustCompile("^(?:"+pattern+")$").MatchString(value) {
			return false
		}
	}
	return true
}

// Nothing that clients invent becomes a label, and what is gone leaves no series of its own.
func TestCardinality(t *testing.T) {
	c := used(t)
	r := kubernetes.NewForConfigOrDie(c).RESTClient()
	for n := range 50 {
		_ = r.Get().AbsPath(fmt.Sprintf("/apis/g%d.example.com/v1/invented%d", n, n)).Do(t.Context()).Error()
		_ = r.Get().AbsPath(fmt.Sprintf("/api/v1/namespaces/default/configmaps/a/invented%d", n)).Do(t.Context()).Error()
		_ = r.Get().AbsPath(fmt.Sprintf("/invented%d", n)).Do(t.Context()).Error()
		_ = r.Verb(fmt.Sprintf("INVENTED%d", n)).AbsPath("/api/v1/namespaces").Do(t.Context()).Error()
		_ = r.Post().AbsPath("/api/v1/namespaces").Param("dryRun", fmt.Sprintf("invented%d", n)).Param("fieldValidation", fmt.Sprintf("invented%d", n)).Do(t.Context()).Error()
	}
	if err := r.Delete().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.example.com").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	var left []string
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		left = nil
		for _, s := range scraped(t, c).series {
			for l, v := range s.labels {
				if strings.Contains(strings.ToLower(v), "invented") || strings.HasPrefix(v, "g1") || strings.Contains(v, "example.com") && l != "name" || v == "foos" {
					left = append(left, fmt.Sprintf("%s has %s=%q", s.name, l, v))
				}
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, l := range left {
		t.Error(l)
	}
}
