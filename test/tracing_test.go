package test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	admissionreview "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/test/peer"
)

// spans is a collector of traces.
type spans struct {
	collector.UnimplementedTraceServiceServer
	address string
	mu      sync.Mutex
	all     map[string][]*tracev1.Span // by trace; guarded by mu
}

// Export is part of collector.TraceServiceServer.
func (s *spans) Export(_ context.Context, in *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range in.ResourceSpans {
		for _, l := range r.ScopeSpans {
			for _, one := range l.Spans {
				id := hex.EncodeToString(one.TraceId)
				s.all[id] = append(s.all[id], one)
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// collect starts a collector and returns the configuration that leads to it, by
// which so many requests of a million are sampled beside those that ask for it.
func collect(t *testing.T, rate int) (*spans, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s, server := &spans{address: l.Addr().String(), all: map[string][]*tracev1.Span{}}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	path := filepath.Join(t.TempDir(), "tracing.yaml")
	must(t, os.WriteFile(path, fmt.Appendf(nil, "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: %s\nsamplingRatePerMillion: %d\n", l.Addr(), rate), 0o600))
	return s, path
}

// theirs is the span of a client, in which the server's are.
const theirs = "b7ad6b7169203331"

// of returns the spans of a trace, each as "parent > name", once the request's
// own has come, which is the last.
func (s *spans) of(t *testing.T, trace string) []string {
	var out []string
	within(t, 30*time.Second, "the trace is collected", func(context.Context) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		names, complete := map[string]string{}, false
		for _, one := range s.all[trace] {
			names[string(one.SpanId)] = one.Name
			complete = complete || hex.EncodeToString(one.ParentSpanId) == theirs
		}
		out = nil
		for _, one := range s.all[trace] {
			out = append(out, names[string(one.ParentSpanId)]+" > "+one.Name)
		}
		return complete
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// traced is a request, and the spans that it must have below authorization.
type traced struct {
	method, path, body string
	spans              string // as "parent > name", separated by commas
}

// ownSpans are those that kube-apiserver has not: it waits for other things, and asks etcd for single objects.
var ownSpans = []string{"Fresh etcd3", "Delete etcd3", "Get > cacher.Get"}

func tracedRequests(hook func(path string) string) []traced {
	const maps, list = "/api/v1/namespaces/default/configmaps", "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
	const created = "authorization > Create,Create > Create etcd3,Create etcd3 > etcdserverpb.KV/Txn,Create > SerializeObject"
	return []traced{
		{"POST", maps, `{"metadata":{"name":"a"}}`, created},
		{"GET", maps + "/a", "", "authorization > Get,Get > cacher.Get,cacher.Get > Fresh etcd3,Get > SerializeObject"},
		{"GET", maps + "/none", "", "authorization > Get,Get > cacher.Get,cacher.Get > Fresh etcd3,Get > SerializeObject"},
		{"GET", maps + "?resourceVersion=0", "", "authorization > List,List > cacher.GetList,List > SerializeObject"},
		{"PUT", maps + "/a", `{"metadata":{"name":"a"},"data":{"a":"b"}}`,
			"authorization > Update,Update > GuaranteedUpdate etcd3,GuaranteedUpdate etcd3 > etcdserverpb.KV/Txn,Update > SerializeObject"},
		{"PATCH", maps + "/a", `{"data":{"a":"c"}}`,
			"authorization > Patch,Patch > GuaranteedUpdate etcd3,GuaranteedUpdate etcd3 > etcdserverpb.KV/Txn,Patch > SerializeObject"},
		{"GET", maps + "?" + list, "", "authorization > WatchList,WatchList > cacher.Watch,cacher.Watch > Fresh etcd3,WatchList > WatchServer.HandleHTTP"},
		{"GET", maps + "?watch=1&timeoutSeconds=1&resourceVersion=0", "", "authorization > cacher.Watch"},
		{"DELETE", maps + "/a", "", "authorization > Delete,Delete > Delete etcd3,Delete etcd3 > etcdserverpb.KV/Txn,Delete > SerializeObject"},
		{"DELETE", maps, "", "authorization > Delete,Delete > cacher.GetList,cacher.GetList > Fresh etcd3,Delete > SerializeObject"},
		{"POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", hook("/mutate"), created + ",Create > Fresh etcd3"},
		{"POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", hook("/validate"), created + ",Create > Fresh etcd3"},
		{"POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"a"}}`, created +
			",Create > Call mutating webhook,Call mutating webhook > HTTP POST,Create > Call validating webhook,Call validating webhook > HTTP POST"},
	}
}

// testTraces makes the requests, and returns what was expected and collected of each.
func testTraces(t *testing.T, s *spans, c *rest.Config) (want, got map[string][]string) {
	client, err := rest.HTTPClientFor(c)
	must(t, err)
	var mu sync.Mutex
	var parents []string // of the webhooks' requests
	hook := tlsServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		parents = append(parents, r.Header.Get("Traceparent"))
		mu.Unlock()
		var review admissionreview.AdmissionReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Response = &admissionreview.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(review)
	}))
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
	requests := tracedRequests(func(path string) string {
		return fmt.Sprintf(`{"metadata":{"name":"hook"},"webhooks":[{"name":"x.example.com","sideEffects":"None","admissionReviewVersions":["v1"],
			"clientConfig":{"url":"%s%s","caBundle":"%s"},"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["secrets"]}]}]}`, hook.URL, path, ca)
	})
	id := func(n int) string { return fmt.Sprintf("0af7651916cd43dd8448eb211c8031%02x", n) }
	for n, r := range requests {
		req, err := http.NewRequestWithContext(t.Context(), r.method, c.Host+r.path, strings.NewReader(r.body))
		must(t, err)
		req.Header.Set("Traceparent", "00-"+id(n)+"-"+theirs+"-01")
		req.Header.Set("Content-Type", cmp.Or(map[string]string{"PATCH": "application/merge-patch+json"}[r.method], "application/json"))
		if strings.HasSuffix(r.path, "/secrets") {
			// kube-apiserver learns of webhooks after a while.
			time.Sleep(2 * time.Second)
		}
		resp, err := client.Do(req)
		must(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	want, got = map[string][]string{}, map[string][]string{}
	for n, r := range requests {
		key := r.method + " " + r.path
		want[key] = strings.Split(r.spans, ",")
		slices.Sort(want[key])
		got[key] = slices.DeleteFunc(s.of(t, id(n)), func(pair string) bool {
			_, name, _ := strings.Cut(pair, " > ")
			return slices.Contains([]string{"audit", "constrainedimpersonation", "priorityandfairness", "authorization"}, name) || strings.HasPrefix(pair, " > ")
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if len(parents) != 2 || !strings.HasPrefix(parents[0], "00-"+id(len(requests)-1)+"-") || !strings.HasPrefix(parents[1], "00-"+id(len(requests)-1)+"-") {
		t.Errorf("webhooks were asked in the traces %v", parents)
	}
	return want, got
}

// TestTraces collects the traces of requests whose client is sampled.
func TestTraces(t *testing.T) {
	t.Parallel()
	s, config := collect(t, 0)
	etcd, peer := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t)
	start(t, link(t, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--data-dir="+filepath.Join(t.TempDir(), "etcd"), "--unsafe-no-fsync=true")
	k := serve(t, filepath.Join(t.TempDir(), "data"), "--etcd-servers="+etcd, "--controllers=", "--tracing-config-file="+config)
	// Single objects are read from etcd until somebody has listed or watched them.
	_, err := kubernetes.NewForConfigOrDie(k.config()).CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	want, got := testTraces(t, s, k.config())
	for key := range want {
		if !slices.Equal(got[key], want[key]) {
			t.Errorf("%s:\n got %s\nwant %s", key, strings.Join(got[key], ", "), strings.Join(want[key], ", "))
		}
	}
}

// TestTracesOfPeer holds what is expected above against kube-apiserver.
func TestTracesOfPeer(t *testing.T) {
	t.Parallel()
	s, config := collect(t, 0)
	want, got := testTraces(t, s, peer.Start(t, "--tracing-config-file="+config))
	for key, pairs := range want {
		for _, pair := range pairs {
			if !slices.Contains(got[key], pair) && !slices.ContainsFunc(ownSpans, func(own string) bool { return strings.Contains(pair, own) }) {
				t.Errorf("%s: kube-apiserver has no %s, but %s", key, pair, strings.Join(got[key], ", "))
			}
		}
	}
}
