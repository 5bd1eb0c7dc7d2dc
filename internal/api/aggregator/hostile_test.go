package aggregator_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// hang answers nothing until the client has gone.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// TestHostileExtensionServers has extension servers that hang, crash, lie, and have the wrong certificate. What this server
// and a good extension server serve does not notice.
func TestHostileExtensionServers(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	crash := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	garbage := http.NewServeMux() // it passes the check, and then says nonsense
	garbage.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		w.Header().Set("Etag", `"x"`)
		_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1"}]},{"versions":7}]}`)
	})
	endless := http.NewServeMux()
	endless.HandleFunc("/apis/{group}/{version}", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, metav1.APIResourceList{}) })
	endless.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		for block := strings.Repeat(" ", 1<<16); ; {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	})
	newExtension(t, s, "hang", http.HandlerFunc(hang)).register(t, s, "hang.test", "v1")
	newExtension(t, s, "crash", crash).register(t, s, "crash.test", "v1")
	newExtension(t, s, "garbage", garbage).register(t, s, "garbage.test", "v1")
	newExtension(t, s, "endless", endless).register(t, s, "endless.test", "v1")
	newExtension(t, s, "wrong", things("wrong.test", "v1"), "other.default.svc").register(t, s, "wrong.test", "v1")
	newExtension(t, s, "good", things("good.test", "v1")).register(t, s, "good.test", "v1")

	awaitCondition(t, s, "v1.good.test", "Passed")
	eventually(t, "the good one is discovered", func() bool { return slices.Equal(aggregated(t, s, "good.test"), []string{"v1 Current things"}) })
	for name, part := range map[string]string{
		"wrong": "x509: certificate is valid for other.default.svc, not wrong.default.svc", "crash": "failing or missing response from https://", "hang": "context deadline exceeded",
	} {
		c := awaitCondition(t, s, "v1."+name+".test", "FailedDiscoveryCheck")
		if c.Status != "False" || !strings.Contains(c.Message, part) {
			t.Errorf("%s: %+v", name, c)
		}
		eventually(t, name+": 503 with the reason", func() bool {
			code, body := get(t, s, "/apis/"+name+".test/v1/things")
			return code == 503 && strings.Contains(body, "FailedDiscoveryCheck")
		})
	}
	for _, name := range []string{"garbage", "endless"} {
		awaitCondition(t, s, "v1."+name+".test", "Passed")
	}
	for _, name := range []string{"hang", "crash", "garbage", "wrong", "endless"} {
		if got := aggregated(t, s, name+".test"); !slices.Equal(got, []string{"v1 Stale "}) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := aggregated(t, s, "apps"); len(got) != 1 || !strings.Contains(got[0], "deployments") {
		t.Errorf("an extension server changed a group that is not its own: %q", got)
	}
	for _, path := range []string{"/apis", "/openapi/v2", "/openapi/v3", "/api/v1/namespaces", "/apis/good.test/v1", "/readyz"} {
		if code, _ := get(t, s, path); code != 200 {
			t.Errorf("%s: %d", path, code)
		}
	}
	// A namespace goes away, although nobody knows what the broken ones have in it.
	made(t, s, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaving"}})
	remove(t, s, apiServices+"/v1.garbage.test") // these two say that they are well
	remove(t, s, apiServices+"/v1.endless.test")
	if resp, body := ask(t, s, "DELETE", "/api/v1/namespaces/leaving", "application/json", ""); resp.StatusCode >= 300 {
		t.Fatal(body)
	}
	eventually(t, "the namespace is gone", func() bool { code, _ := get(t, s, "/api/v1/namespaces/leaving"); return code == 404 })
}

// many is an extension server with n groups and versions.
func many(n int, requests *atomic.Int64) http.Handler {
	list := apidiscoveryv2.APIGroupDiscoveryList{}
	list.Kind, list.APIVersion = "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"
	for i := range n {
		list.Items = append(list.Items, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("g%d.many.test", i)},
			Versions: []apidiscoveryv2.APIVersionDiscovery{{Version: "v1", Resources: []apidiscoveryv2.APIResourceDiscovery{
				{Resource: "things", Scope: apidiscoveryv2.ScopeNamespace, SingularResource: "thing", ResponseKind: &metav1.GroupVersionKind{Kind: "Thing"}, Verbs: []string{"get", "list"}}}}}})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/apis", func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Etag", `"tag"`)
		if r.Header.Get("If-None-Match") == `"tag"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		writeJSON(w, list)
	})
	mux.HandleFunc("/apis/{group}/{version}", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, metav1.APIResourceList{}) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(typed{w, r}, r)
	})
}

// typed sets the content type of aggregated discovery.
type typed struct {
	http.ResponseWriter
	r *http.Request
}

func (t typed) WriteHeader(code int) {
	if t.r.URL.Path == "/apis" {
		t.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	}
	t.ResponseWriter.WriteHeader(code)
}

func (t typed) Write(b []byte) (int, error) {
	t.WriteHeader(200)
	return t.ResponseWriter.Write(b)
}

// A thousand groups of one extension server are discovered together, and local requests keep their latency meanwhile and
// when the extension server hangs.
func TestThousandGroups(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("creates a thousand APIServices")
	}
	s := kanzentest.Start(t)
	before := latency(t, s)
	const n = 1000
	var requests atomic.Int64
	e := newExtension(t, s, "many", many(n, &requests))
	for i := range n {
		e.register(t, s, fmt.Sprintf("g%d.many.test", i), "v1")
	}
	for i := range n {
		awaitCondition(t, s, fmt.Sprintf("v1.g%d.many.test", i), "Passed")
	}
	eventually(t, "all are discovered", func() bool {
		_, body := get(t, s, "/apis/g999.many.test")
		return strings.Contains(body, "g999") && slices.Equal(aggregated(t, s, "g999.many.test"), []string{"v1 Current things"})
	})
	if _, body := get(t, s, "/apis"); strings.Count(body, ".many.test/v1") < 2*n {
		t.Error("not all are listed")
	}
	h := http.Handler(http.HandlerFunc(hang))
	e.handler.Store(&h)
	hanging := latency(t, s)
	t.Logf("local requests: p99 %v before, %v while a thousand groups hang; %d discovery requests", before, hanging, requests.Load())
}

// latency returns the 99th percentile of local requests.
func latency(t testing.TB, s *kanzentest.Server) time.Duration {
	t.Helper()
	all := make([]time.Duration, 2000)
	for n := range all {
		began := time.Now()
		if code, body := get(t, s, "/api/v1/namespaces/default"); code != 200 {
			t.Fatal(body)
		}
		all[n] = time.Since(began)
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}

// A namespace that waits for an extension server says for which one.
func TestNamespaceNamesExtensionServer(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	mux := things("ext.test", "v1")
	mux.HandleFunc("/apis/ext.test/v1/namespaces/{ns}/things", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the disk is full", http.StatusInternalServerError)
	})
	e := newExtension(t, s, "full", mux)
	e.register(t, s, "ext.test", "v1")
	eventually(t, "it is available", func() bool { code, _ := get(t, s, "/apis/ext.test/v1"); return code == 200 })
	eventually(t, "its resources are known", func() bool {
		return len(aggregated(t, s, "ext.test")) == 1 && strings.Contains(aggregated(t, s, "ext.test")[0], "things")
	})
	made(t, s, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaving"}})
	remove(t, s, "/api/v1/namespaces/leaving")
	server := fmt.Sprintf("(extension server default/full:%d)", e.port)
	eventually(t, "the status names the server", func() bool {
		_, body := get(t, s, "/api/v1/namespaces/leaving")
		return strings.Contains(body, "NamespaceDeletionContentFailure") && strings.Contains(body, "things.ext.test") && strings.Contains(body, "the disk is full") && strings.Contains(body, server)
	})
	remove(t, s, apiServices+"/v1.ext.test")
	eventually(t, "the namespace is gone", func() bool { code, _ := get(t, s, "/api/v1/namespaces/leaving"); return code == 404 })
}
