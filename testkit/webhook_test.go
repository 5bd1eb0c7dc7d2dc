package testkit_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/testkit"
)

const hook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks:
- name: hook.example.com
  clientConfig: {service: {name: webhook-service, namespace: system, path: /validate}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], scope: "*"}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 10
`

// refuse is a webhook that refuses all.
func refuse(w http.ResponseWriter, r *http.Request) {
	var review map[string]any
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request, _ := review["request"].(map[string]any)
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review["apiVersion"], "kind": review["kind"],
		"response": map[string]any{"uid": request["uid"], "allowed": false, "status": map[string]any{"code": 418, "message": "not at " + r.URL.Path}}})
}

// TestWebhookServer has a request wait until the manager of its webhook starts.
func TestWebhookServer(t *testing.T) {
	needKanzen(t)
	t.Parallel()
	s := testkit.Start(t, testkit.Webhooks(nil, testkit.YAML(hook)))
	type checker func(*http.Request) error
	m := testkit.WebhookServer[checker](s)
	m.Register("/validate", http.HandlerFunc(refuse))
	if err := m.StartedChecker()(nil); err != nil || m.NeedLeaderElection() {
		t.Error(err)
	}
	if _, pattern := m.WebhookMux().Handler(&http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/validate"}}); pattern != "/validate" {
		t.Errorf("the pattern is %q", pattern)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	time.AfterFunc(50*time.Millisecond, func() { ended <- m.Start(ctx) })
	if code, answer := ask(t, s.Access, http.MethodPost, configMaps, `{"metadata":{"name":"a"}}`); code != 418 {
		t.Errorf("%d %v", code, answer)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if code, answer := ask(t, s.Access, http.MethodPost, configMaps, `{"metadata":{"name":"a"}}`); code != http.StatusInternalServerError {
		t.Errorf("after the manager: %d %v", code, answer)
	}
}

// TestWebhooks has a handler from the beginning, and a conversion.
func TestWebhooks(t *testing.T) {
	needKanzen(t)
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/validate", refuse)
	mux.HandleFunc("/convert", func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			APIVersion, Kind string
			Request          struct {
				UID               string
				DesiredAPIVersion string
				Objects           []map[string]any
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, o := range review.Request.Objects {
			o["apiVersion"], o["converted"] = review.Request.DesiredAPIVersion, "yes"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind, "response": map[string]any{
			"uid": review.Request.UID, "result": map[string]any{"status": "Success"}, "convertedObjects": review.Request.Objects}})
	})
	s := testkit.Start(t, testkit.Webhooks(mux, testkit.YAML(hook, things)), testkit.Conversion("things.example.com"))
	if code, answer := ask(t, s.Access, http.MethodPost, configMaps, `{"metadata":{"name":"a"}}`); code != 418 {
		t.Errorf("%d %v", code, answer)
	}
	const path = "/namespaces/default/things"
	if code, answer := ask(t, s.Access, http.MethodPost, "/apis/example.com/v1"+path, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}`); code != http.StatusCreated {
		t.Errorf("%d %v", code, answer)
	}
	if code, answer := ask(t, s.Access, http.MethodGet, "/apis/example.com/v2"+path+"/a", ""); code != http.StatusOK || answer["converted"] != "yes" {
		t.Errorf("%d %v", code, answer)
	}
	plain := testkit.Start(t)
	if err := plain.ServeWebhooks(mux); err == nil {
		t.Error("a server without the option Webhooks takes a handler")
	}
}
