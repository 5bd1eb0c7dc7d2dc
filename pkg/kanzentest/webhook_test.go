package kanzentest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

const webhooks = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: painter}
webhooks:
- name: mutate.example.com
  clientConfig: {service: {name: painter, namespace: system, path: /mutate}}
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [widgets]}]
  sideEffects: None
  admissionReviewVersions: [v1]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: painter}
webhooks:
- name: validate.example.com
  clientConfig: {service: {name: painter, namespace: system, path: /validate}}
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [widgets]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

// painter is an admission webhook that paints widgets red, and refuses green ones.
func painter(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	switch {
	case r.URL.Path == "/validate" && strings.Contains(string(review.Request.Object.Raw), "green"):
		answer.Allowed, answer.Result = false, &metav1.Status{Message: "not green"}
	case r.URL.Path == "/mutate" && !strings.Contains(string(review.Request.Object.Raw), "colour"):
		json := admissionv1.PatchTypeJSONPatch
		answer.PatchType, answer.Patch = &json, []byte(`[{"op": "add", "path": "/spec/colour", "value": "red"}]`)
	}
	review.Response = answer
	_ = json.NewEncoder(w).Encode(&review)
}

// TestWebhooks has admission webhooks served by a handler, without a socket.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Webhooks(http.HandlerFunc(painter), kanzentest.Path("testdata/crds"), kanzentest.YAML(webhooks)))
	all := dynamic.NewForConfigOrDie(s.Config()).Resource(widgets).Namespace("default")
	if _, err := all.Create(t.Context(), widget(map[string]any{"colour": "green"}), metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "not green") {
		t.Errorf("a green widget: %v", err)
	}
	made, err := all.Create(t.Context(), widget(map[string]any{"size": int64(1)}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c, _, _ := unstructured.NestedString(made.Object, "spec", "colour"); c != "red" {
		t.Errorf("painted %q", c)
	}
}

// TestConversionWebhook has a CRD's conversion webhook served by a handler.
func TestConversionWebhook(t *testing.T) {
	t.Parallel()
	objects, err := kanzentest.Path("testdata/crds").Read()
	if err != nil {
		t.Fatal(err)
	}
	d := objects[0]
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
	old := (&unstructured.Unstructured{Object: versions[0].(map[string]any)}).DeepCopy().Object
	old["name"], old["storage"] = "v1alpha1", false
	if err := unstructured.SetNestedSlice(d.Object, append(versions, any(old)), "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	d.Object["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"}, "clientConfig": map[string]any{"service": map[string]any{"name": "a", "namespace": "b", "path": "/convert"}}}}
	convert := func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			metav1.TypeMeta
			Request struct {
				UID               string                      `json:"uid"`
				DesiredAPIVersion string                      `json:"desiredAPIVersion"`
				Objects           []unstructured.Unstructured `json:"objects"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for n := range review.Request.Objects {
			o := &review.Request.Objects[n]
			o.SetAPIVersion(review.Request.DesiredAPIVersion)
			_ = unstructured.SetNestedField(o.Object, "converted", "spec", "colour")
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
			"response": map[string]any{"uid": review.Request.UID, "convertedObjects": review.Request.Objects, "result": map[string]any{"status": "Success"}}})
	}
	s := kanzentest.Start(t, kanzentest.Webhooks(http.HandlerFunc(convert), kanzentest.Objects(d)))
	c := dynamic.NewForConfigOrDie(s.Config())
	if _, err := c.Resource(widgets).Namespace("default").Create(t.Context(), widget(map[string]any{"colour": "blue"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1alpha1", Resource: "widgets"}).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if colour, _, _ := unstructured.NestedString(got.Object, "spec", "colour"); colour != "converted" {
		t.Errorf("colour %q", colour)
	}
}
