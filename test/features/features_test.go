// Package features has the features of docs/features.md that no other test shows, as clients see them.
package features

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// server is a server that tests ask by plain requests.
type server struct {
	t *testing.T
	*kanzentest.Server
	*kubernetes.Clientset
	plain *http.Client
	host  string
}

func start(t *testing.T, options ...kanzentest.Option) *server {
	t.Helper()
	t.Parallel()
	s := kanzentest.Start(t, options...)
	transport, err := rest.TransportFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &server{t, s, kubernetes.NewForConfigOrDie(s.Config()), &http.Client{Transport: transport}, s.Config().Host}
}

// do sends a request, and returns the answer with its body.
func (s *server) do(method, path, body string, headers ...string) (*http.Response, []byte) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.host+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := s.plain.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, all
}

// The root lists what is served.
func TestRootPaths(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/", "/index.html"} {
		resp, body := s.do("GET", path, "")
		var got metav1.RootPaths
		if err := json.Unmarshal(body, &got); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v, %.200s", path, resp.StatusCode, err, body)
		}
		for _, want := range []string{"/api/v1", "/apis/apps/v1", "/healthz", "/livez/ping", "/metrics", "/openapi/v3", "/version"} {
			if !slices.Contains(got.Paths, want) {
				t.Errorf("%s does not list %s", path, want)
			}
		}
	}
	if resp, body := s.do("GET", "/nothing", ""); resp.StatusCode != http.StatusNotFound || string(body) != "404 page not found\n" {
		t.Errorf("what is not served: %d %q", resp.StatusCode, body)
	}
}

// Answers from 128 KiB on are compressed for clients that ask for it.
func TestCompression(t *testing.T) {
	s := start(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	object := func(name string, size int) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"data":{"a":%q}}`, name, strings.Repeat("x", size))
	}
	var last metav1.PartialObjectMetadata
	for _, o := range []string{object("small", 100), object("large", 128<<10)} {
		resp, body := s.do("POST", maps, o)
		if err := json.Unmarshal(body, &last); err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
	}
	// A list of the newest objects tells of every write to the server.
	list := "?resourceVersionMatch=Exact&resourceVersion=" + last.ResourceVersion
	for path, compressed := range map[string]bool{"/small": false, "/large": true, list: true} {
		_, want := s.do("GET", maps+path, "", "Accept-Encoding: identity")
		resp, got := s.do("GET", maps+path, "", "Accept-Encoding: gzip")
		if is := resp.Header.Get("Content-Encoding") == "gzip"; is != compressed {
			t.Fatalf("%q compressed: %v", path, is)
		}
		if compressed {
			z, err := gzip.NewReader(bytes.NewReader(got))
			if err != nil {
				t.Fatal(err)
			}
			if got, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%q: the compressed answer says something else", path)
		}
	}
}

// TestCompressedWatch reads the initial events of a watch and one that follows.
func TestCompressedWatch(t *testing.T) {
	s := start(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.host+maps+"?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	resp, err := s.plain.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Encoding"); got != "gzip" || !strings.Contains(resp.Header.Get("Vary"), "Accept-Encoding") {
		t.Fatalf("%q: %v", got, resp.Header)
	}
	z, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	events := json.NewDecoder(z)
	next := func() (event struct {
		Type   string
		Object struct{ Metadata metav1.ObjectMeta }
	}) {
		if err := events.Decode(&event); err != nil {
			t.Fatal(err)
		}
		return event
	}
	for next().Type != "BOOKMARK" {
	}
	s.do("POST", maps, `{"metadata":{"name":"new"}}`)
	if e := next(); e.Type != "ADDED" || e.Object.Metadata.Name != "new" {
		t.Errorf("%+v", e)
	}
}

// A watch without timeoutSeconds ends by itself, after --min-request-timeout to twice as long.
func TestWatchesEnd(t *testing.T) {
	s := start(t, kanzentest.Flags("--min-request-timeout=1"))
	began := time.Now()
	resp, body := s.do("GET", "/api/v1/namespaces?watch=1", "") // returns at the end of the watch
	if took := time.Since(began); resp.StatusCode != http.StatusOK || took < time.Second || !strings.Contains(string(body), `"kube-system"`) {
		t.Errorf("%d after %v: %.200s", resp.StatusCode, took, body)
	}
}

// Answers name the flow schema and priority level by which the request was let in.
func TestFlowControlHeaders(t *testing.T) {
	s := start(t)
	s.User(t, "reader")
	schema, err := s.FlowcontrolV1().FlowSchemas().Get(t.Context(), "exempt", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	level, err := s.FlowcontrolV1().PriorityLevelConfigurations().Get(t.Context(), "exempt", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resp, _ := s.do("GET", "/api/v1/namespaces", "")
	if got := resp.Header.Get("X-Kubernetes-PF-FlowSchema-UID"); got != string(schema.UID) {
		t.Errorf("flow schema %q, want %s", got, schema.UID)
	}
	if got := resp.Header.Get("X-Kubernetes-PF-PriorityLevel-UID"); got != string(level.UID) {
		t.Errorf("priority level %q, want %s", got, level.UID)
	}
}

// An object without managed fields stays so if a writer sends an empty entry.
func TestManagedFieldsOptOut(t *testing.T) {
	s := start(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	fields := func(body []byte) int {
		var m corev1.ConfigMap
		if err := json.Unmarshal(body, &m); err != nil {
			t.Fatal(err)
		}
		return len(m.ManagedFields)
	}
	_, body := s.do("POST", maps, `{"metadata":{"name":"a"},"data":{"a":"1"}}`)
	if fields(body) != 1 {
		t.Fatalf("%s", body)
	}
	if _, body = s.do("PATCH", maps+"/a", `{"metadata":{"managedFields":[{}]},"data":{"a":"2"}}`, "Content-Type: application/merge-patch+json"); fields(body) != 0 {
		t.Errorf("%s", body)
	}
	if _, body = s.do("PATCH", maps+"/a", `{"data":{"a":"3"}}`, "Content-Type: application/merge-patch+json"); fields(body) != 0 {
		t.Errorf("after another update: %s", body)
	}
}

// A lease can be created by an update, a ConfigMap cannot.
func TestCreateOnUpdate(t *testing.T) {
	s := start(t)
	for path, code := range map[string]int{
		"/apis/coordination.k8s.io/v1/namespaces/default/leases/a": http.StatusCreated, "/api/v1/namespaces/default/configmaps/a": http.StatusNotFound,
	} {
		if resp, body := s.do("PUT", path, `{"metadata":{"name":"a"}}`); resp.StatusCode != code {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}

// A namespace that is being deleted stays until the last of its finalizers is taken off, by its subresource only.
func TestNamespaceFinalize(t *testing.T) {
	s := start(t, kanzentest.Controllers())
	const path = "/api/v1/namespaces/a"
	if resp, body := s.do("POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`); resp.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if resp, body := s.do("DELETE", path, ""); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	resp, body := s.do("PUT", path, `{"metadata":{"name":"a"},"spec":{"finalizers":[]}}`)
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"finalizers":["kubernetes"]`) || !strings.Contains(string(body), "Terminating") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body = s.do("PUT", path+"/finalize", `{"metadata":{"name":"a"},"spec":{"finalizers":[]}}`); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body = s.do("GET", path, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// Bodies and patches have kube-apiserver's bounds.
func TestBounds(t *testing.T) {
	s := start(t)
	const maps = "/api/v1/namespaces/default/configmaps"
	if resp, body := s.do("POST", maps, `{"metadata":{"name":"a"},"data":{"a":"`+strings.Repeat("x", 3<<20)+`"}}`); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of more than 3 MiB: %d %.200s", resp.StatusCode, body)
	}
	if resp, body := s.do("POST", maps, `{"metadata":{"name":"a"}}`); resp.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	patch := func(operations int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/metadata/name","value":"a"},`, operations), ",") + "]"
	}
	for operations, code := range map[int]int{10000: 200, 10001: 413} {
		if resp, body := s.do("PATCH", maps+"/a", patch(operations), "Content-Type: application/json-patch+json"); resp.StatusCode != code {
			t.Errorf("%d operations: %d %.200s", operations, resp.StatusCode, body)
		}
	}
}

// A service of both families gets an address of each, and a local one a port for health checks.
func TestDualStackService(t *testing.T) {
	s := start(t, kanzentest.Flags("--service-cluster-ip-range=10.7.0.0/16,fd00:7::/112"))
	both := corev1.IPFamilyPolicyPreferDualStack
	made, err := s.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, IPFamilyPolicy: &both, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, Ports: []corev1.ServicePort{{Port: 80}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ips := made.Spec.ClusterIPs
	if len(ips) != 2 || !strings.HasPrefix(ips[0], "10.7.") || !strings.HasPrefix(ips[1], "fd00:7::") || made.Spec.HealthCheckNodePort < 30000 || made.Spec.Ports[0].NodePort < 30000 {
		t.Errorf("%+v", made.Spec)
	}
	for _, ip := range ips {
		if _, err := s.NetworkingV1().IPAddresses().Get(t.Context(), ip, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

const labeller = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: labeller}
webhooks:
- name: label.example.com
  clientConfig: {service: {name: labeller, namespace: system}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// The audit log tells what webhooks have changed.
func TestAuditOfMutations(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"Request","resources":[{"resources":["configmaps"]}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	label := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		kind := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, PatchType: &kind,
			Patch: []byte(`[{"op":"add","path":"/metadata/labels","value":{"seen":"yes"}}]`), AuditAnnotations: map[string]string{"why": "because"}}
		_ = json.NewEncoder(w).Encode(&review)
	})
	s := start(t, kanzentest.Webhooks(label, kanzentest.YAML(labeller)),
		kanzentest.Flags("--audit-policy-file="+policy, "--audit-log-path="+log, "--audit-log-mode=blocking"))
	if resp, body := s.do("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`); resp.StatusCode != http.StatusCreated || !strings.Contains(string(body), `"seen":"yes"`) {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	written, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"mutation.webhook.admission.k8s.io/round_0_index_0":"{\"configuration\":\"labeller\",\"webhook\":\"label.example.com\",\"mutated\":true}"`,
		`"patch.webhook.admission.k8s.io/round_0_index_0":"{\"configuration\":\"labeller\",\"webhook\":\"label.example.com\",\"patch\":[`,
		`"label.example.com/why":"because"`,
	} {
		if !strings.Contains(string(written), want) {
			t.Errorf("no %s in\n%s", want, written)
		}
	}
}

// A server that is told to stop is not ready at once, and serves for as long as load balancers need to notice.
func TestShutdownDelay(t *testing.T) {
	clock := kanzentest.NewClock(time.Time{})
	s := start(t, kanzentest.WithClock(clock), kanzentest.Flags("--shutdown-delay-duration=1h"))
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop() }()
	for end := time.Now().Add(time.Minute); ; {
		if resp, _ := s.do("GET", "/readyz", ""); resp.StatusCode == http.StatusInternalServerError {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the server stays ready")
		}
	}
	if resp, body := s.do("GET", "/livez", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("/livez: %d %s", resp.StatusCode, body)
	}
	if resp, body := s.do("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"late"}}`); resp.StatusCode != http.StatusCreated {
		t.Errorf("a write meanwhile: %d %s", resp.StatusCode, body)
	}
	for {
		clock.Advance(time.Hour) // the delay may not have begun at the first time
		select {
		case err := <-stopped:
			if err != nil {
				t.Error(err)
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}
