package webhook_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

// BenchmarkReviews asks a mutating webhook that adds a label, and two validating ones, about the creation of a pod. The webhooks do next to
// nothing, but are in this process too.
func BenchmarkReviews(b *testing.B) {
	data, err := os.ReadFile("../../../../bench/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(data, pod); err != nil {
		b.Fatal(err)
	}
	s := newSite(b)
	hooks := httptest.NewUnstartedServer(http.HandlerFunc(allow))
	hooks.EnableHTTP2 = true
	hooks.StartTLS()
	b.Cleanup(hooks.Close)
	s.Server.Close()
	s.Server = hooks
	m, v := s.mutates("m", nil, "/label"), s.validates("v", nil, "/a", "/b")
	onPods := []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"*"},
		Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}}
	m.Webhooks[0].Rules, v.Webhooks[0].Rules, v.Webhooks[1].Rules = onPods, onPods, onPods
	s.mutating.Set(m)
	s.validating.Set(v)
	b.ReportAllocs()
	for b.Loop() {
		a := admissiontest.Create(corev1.Resource("pods"), pod)
		a.Kind = corev1.SchemeGroupVersion.WithKind("Pod")
		if err := s.chain.Admit(b.Context(), a); err != nil {
			b.Fatal(err)
		}
		if a.Object.(admission.Object).GetLabels()["hook"] != "yes" {
			b.Fatal("the label is missing")
		}
		if err := s.chain.Validate(b.Context(), a); err != nil {
			b.Fatal(err)
		}
	}
}

// allow allows a review. It finds the uid without decoding the rest.
func allow(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, rest, _ := strings.Cut(string(body), `"uid":"`)
	uid, _, _ := strings.Cut(rest, `"`)
	patch := ""
	if r.URL.Path == "/label" {
		patch = `,"patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscy9ob29rIiwidmFsdWUiOiJ5ZXMifV0="`
	}
	_, _ = fmt.Fprintf(w, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":%q,"allowed":true%s}}`, uid, patch)
}
