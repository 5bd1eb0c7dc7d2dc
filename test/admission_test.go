package test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"
	syaml "sigs.k8s.io/yaml"
)

// These tests put questions about admission to a server and compare the
// answers with those that kube-apiserver v1.37.2 gave. A script in
// testdata/admission is YAML documents, each a request; the file next to it
// has the answers. To ask kube-apiserver anew:
//
//	go test -run TestAdmissionAnswers -peer ../bench/peer/bin -update .
var (
	peerBin = flag.String("peer", "", "directory of kube-apiserver and etcd, to ask instead of kanzen")
	update  = flag.Bool("update", false, "write down the answers")
)

// step is one request of a script.
type step struct {
	Name   string         `json:"name"`
	Method string         `json:"method"` // POST
	Path   string         `json:"path"`
	Type   string         `json:"type"` // application/json
	Body   map[string]any `json:"body"`
	// Patch is a body that is no object.
	Patch json.RawMessage `json:"patch"`
	// Wait is how long to wait before the request, where time decides.
	Wait string `json:"wait"`
	// Ignore says that any answer will do.
	Ignore bool `json:"ignore"`
	// NoBody says that only the reviews matter.
	NoBody bool `json:"nobody"`
	// Settle gives kube-apiserver time to go by what was written so far.
	Settle bool `json:"settle"`
}

// answer is what came of a step, without what differs from server to server.
type admissionAnswer struct {
	Name     string   `json:"name"`
	Code     int      `json:"code"`
	Warnings []string `json:"warnings,omitempty"`
	Body     any      `json:"body,omitempty"`
	Reviews  []any    `json:"reviews,omitempty"`
}

func TestAdmissionAnswers(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/admission/*.yaml")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	hooks := newHooks(t)
	url := admissionServer(t)
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".yaml"), func(t *testing.T) {
			got := runScript(t, url, hooks, script)
			file := strings.TrimSuffix(script, ".yaml") + ".json"
			if *update {
				b, err := json.MarshalIndent(got, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			compareAnswers(t, file, got)
		})
	}
}

// discreet are the answers in which kanzen differs on purpose from what was
// recorded: kube-apiserver shows clients what a webhook says that does not
// answer with a review, and goes where it redirects to (CVE-2020-8561).
var discreet = func() map[string]string {
	out := map[string]string{}
	for name, message := range map[string]string{
		"500":        `an error on the server ("unknown") has prevented the request from succeeding`,
		"403-status": "unknown",
		"redirect":   "the server responded with the status code 307 but did not return more information",
	} {
		for _, kind := range []string{"ValidatingWebhookConfiguration ", "WebhookConfiguration "} {
			out[kind+name] = fmt.Sprintf(`Internal error occurred: failed calling webhook "%s.example.com": failed to call webhook: %s`, name, message)
		}
	}
	return out
}()

func compareAnswers(t *testing.T, file string, got []admissionAnswer) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want []admissionAnswer
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d answers, want %d", len(got), len(want))
	}
	for i := range got {
		if message, ok := discreet[strings.TrimPrefix(got[i].Name, "Mutating")]; ok && *peerBin == "" {
			said, _ := got[i].Body.(map[string]any)
			if said["message"] != message || len(got[i].Reviews) != 1 {
				t.Errorf("%s: %d reviews, %v; want one, and %q", got[i].Name, len(got[i].Reviews), said["message"], message)
			}
			continue
		}
		g, _ := json.MarshalIndent(got[i], "", " ")
		w, _ := json.MarshalIndent(want[i], "", " ")
		if !bytes.Equal(g, w) {
			t.Errorf("%s\ngot  %s\nwant %s", got[i].Name, g, w)
		}
	}
}

const admissionToken = "admission"

// admissionServer starts the server under test, or kube-apiserver, and returns
// its URL.
func admissionServer(t *testing.T) string {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(admissionToken+",admin,admin,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if *peerBin == "" {
		k := serve(t, filepath.Join(dir, "data"), "--token-auth-file", tokens, "--controllers=", "--disable-admission-plugins=ServiceAccount", "--admission-webhook-warnings=false")
		return "https://" + k.address
	}
	url, _ := startPeer(t, dir, startPeerEtcd(t, dir), tokens)
	return url
}

// startPeerEtcd starts upstream's etcd and returns its URL.
func startPeerEtcd(t *testing.T, dir string) string {
	client, peer := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t)
	start(t, filepath.Join(*peerBin, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", client,
		"--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--unsafe-no-fsync")
	return client
}

// startPeer starts kube-apiserver, with further arguments, and waits until it is ready.
func startPeer(t *testing.T, dir, client, tokens string, more ...string) (url string, server *process) {
	sa := filepath.Join(dir, "sa.key")
	writeKey(t, sa)
	port := freePort(t)
	server = start(t, filepath.Join(*peerBin, "kube-apiserver"), append([]string{"--etcd-servers", client, "--bind-address", "127.0.0.1", "--secure-port", port,
		"--cert-dir", filepath.Join(dir, "certs"), "--service-cluster-ip-range", "10.0.0.0/24", "--allow-privileged=true",
		"--authorization-mode", "Node,RBAC", "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", sa, "--service-account-signing-key-file", sa, "--token-auth-file", tokens,
		"--disable-admission-plugins=ServiceAccount"}, more...)...)
	url = "https://127.0.0.1:" + port
	within(t, 2*time.Minute, "kube-apiserver is ready", func(ctx context.Context) bool {
		select {
		case <-server.done:
			t.Fatalf("it ended: %s", server.stderr.String())
		default:
		}
		code, _, _ := ask(t, url, step{Method: "GET", Path: "/readyz"})
		return code == http.StatusOK
	})
	return url, server
}

func runScript(t *testing.T, url string, hooks *hookServer, script string) []admissionAnswer {
	t.Helper()
	b, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(b, []byte("{{webhook}}"), []byte(hooks.url))
	b = bytes.ReplaceAll(b, []byte("{{ca}}"), []byte(hooks.ca))
	var out []admissionAnswer
	d := yaml.NewYAMLReader(bufioReader(b))
	for {
		doc, err := d.Read()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		var s step
		if err := syaml.UnmarshalStrict(doc, &s); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		if s.Path == "" {
			continue
		}
		if s.Wait != "" {
			d, err := time.ParseDuration(s.Wait)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
		}
		hooks.take()
		code, warnings, body := ask(t, url, s)
		if *peerBin != "" && (s.Settle || strings.Contains(s.Path, "webhookconfigurations")) {
			time.Sleep(2500 * time.Millisecond)
		}
		a := admissionAnswer{Name: s.Name, Code: code, Warnings: warnings, Body: plain(hooks, body)}
		for _, r := range hooks.take() {
			a.Reviews = append(a.Reviews, plain(hooks, r))
		}
		if s.NoBody {
			a.Code, a.Body = 0, nil
		}
		if s.Ignore {
			a = admissionAnswer{Name: s.Name}
		}
		out = append(out, a)
	}
}

var insecure = &http.Client{Transport: insecureTransport(), Timeout: time.Minute}

func ask(t *testing.T, url string, s step) (code int, warnings []string, body []byte) {
	t.Helper()
	if s.Method == "" {
		s.Method = "POST"
	}
	if s.Type == "" {
		s.Type = "application/json"
	}
	sent := []byte(s.Patch)
	if s.Body != nil {
		var err error
		if sent, err = json.Marshal(s.Body); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), s.Method, url+s.Path, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+admissionToken)
	req.Header.Set("Content-Type", s.Type)
	req.Header.Set("User-Agent", "admission")
	resp, err := insecure.Do(req)
	if err != nil {
		return 0, nil, []byte(err.Error())
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header["Warning"], body
}

var varying = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|127\.0\.0\.1:[0-9]+|scheme \\"[^"]*\\"`)

// plain leaves out of an answer what differs from server to server, and what
// is none of admission's business.
func plain(hooks *hookServer, body []byte) any {
	body = varying.ReplaceAll(body, []byte("X"))
	var v any
	if json.Unmarshal(body, &v) != nil {
		return string(body)
	}
	drop(v)
	return v
}

func drop(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range []string{"managedFields", "resourceVersion", "creationTimestamp", "uid", "deletionTimestamp"} {
			delete(v, k)
		}
		for _, child := range v {
			drop(child)
		}
	case []any:
		for _, child := range v {
			drop(child)
		}
	}
}

// hookServer is webhooks, one a path.
type hookServer struct {
	url, ca string
	got     chan []byte
}

// take returns the reviews that came in since the last call.
func (h *hookServer) take() (out [][]byte) {
	for {
		select {
		case r := <-h.got:
			out = append(out, r)
		default:
			return out
		}
	}
}

func newHooks(t *testing.T) *hookServer {
	h := &hookServer{got: make(chan []byte, 100)}
	s := tlsServer(t, h)
	h.url = s.URL
	h.ca = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return h
}

// ServeHTTP answers as the path says.
func (h *hookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	h.got <- body
	var review struct {
		APIVersion string `json:"apiVersion"`
		Request    struct {
			UID    string `json:"uid"`
			Object struct {
				Metadata struct {
					Annotations map[string]string `json:"annotations"`
				} `json:"metadata"`
			} `json:"object"`
		} `json:"request"`
	}
	if err := json.Unmarshal(body, &review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := map[string]any{"uid": review.Request.UID, "allowed": true}
	answer := map[string]any{"apiVersion": review.APIVersion, "kind": "AdmissionReview", "response": response}
	patch := func(ops string) {
		response["patch"], response["patchType"] = base64.StdEncoding.EncodeToString([]byte(ops)), "JSONPatch"
	}
	switch p := strings.TrimPrefix(r.URL.Path, "/"); p {
	case "allow":
	case "deny":
		response["allowed"] = false
	case "deny-message":
		response["allowed"] = false
		response["status"] = map[string]any{"message": "not today", "code": 418, "reason": "Teapot"}
	case "deny-reason":
		response["allowed"] = false
		response["status"] = map[string]any{"reason": "Forbidden", "status": "Success", "code": 200}
	case "warn":
		response["warnings"] = []string{"careful", "with \"quotes\""}
		response["auditAnnotations"] = map[string]string{"a": "b"}
	case "deny-warn":
		response["allowed"] = false
		response["warnings"] = []string{"told you"}
	case "label":
		patch(`[{"op":"add","path":"/metadata/labels","value":{"hook":"yes"}}]`)
	case "count":
		n := len(review.Request.Object.Metadata.Annotations["count"])
		patch(fmt.Sprintf(`[{"op":"add","path":"/metadata/annotations","value":{"count":%q}}]`, strings.Repeat("i", n+1)))
	case "nothing":
		patch(`[]`)
	case "same":
		patch(`[{"op":"test","path":"/kind","value":"ConfigMap"}]`)
	case "test-fails":
		patch(`[{"op":"test","path":"/kind","value":"Other"}]`)
	case "invalid":
		patch(`[{"op":"replace","path":"/metadata/labels","value":{"not a key":"x"}}]`)
	case "unknown-field":
		patch(`[{"op":"add","path":"/nothing","value":1}]`)
	case "wrong-type":
		patch(`[{"op":"add","path":"/data","value":1}]`)
	case "other-kind":
		patch(`[{"op":"replace","path":"/kind","value":"Secret"}]`)
	case "rename":
		patch(`[{"op":"replace","path":"/metadata/name","value":"renamed"}]`)
	case "other-namespace":
		patch(`[{"op":"replace","path":"/metadata/namespace","value":"kube-system"}]`)
	case "bad-path":
		patch(`[{"op":"remove","path":"/data/missing"}]`)
	case "bad-patch":
		patch(`{"op":"remove"}`)
	case "patch-type":
		patch(`[]`)
		response["patchType"] = "Other"
		response["patch"] = base64.StdEncoding.EncodeToString([]byte(`[{"op":"add","path":"/data","value":{}}]`))
	case "patch-no-type":
		patch(`[{"op":"add","path":"/data","value":{}}]`)
		delete(response, "patchType")
	case "type-no-patch":
		response["patchType"] = "JSONPatch"
	case "wrong-uid":
		response["uid"] = "other"
	case "wrong-kind":
		answer["kind"] = "Other"
	case "wrong-version":
		answer["apiVersion"] = "admission.k8s.io/v1beta1"
	case "no-response":
		delete(answer, "response")
	case "no-kind":
		delete(answer, "kind")
	case "garbage":
		_, _ = w.Write([]byte("this is no JSON"))
		return
	case "empty":
		return
	case "500":
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	case "404":
		http.NotFound(w, r)
		return
	case "403-status":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"go away","reason":"Forbidden","code":403}`))
		return
	case "redirect":
		http.Redirect(w, r, "/allow", http.StatusTemporaryRedirect)
		return
	case "slow":
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}
