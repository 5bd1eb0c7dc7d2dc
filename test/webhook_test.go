package test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// sidecar is a mutating webhook as operators write them.
type sidecar struct{ decoder admission.Decoder }

func (s sidecar) Handle(_ context.Context, req admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := s.decoder.Decode(req, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == "sidecar" {
			return admission.Allowed("has one")
		}
	}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "sidecar", Image: "proxy"})
	b, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, b)
}

// sizes is a mutating webhook for custom resources, which are read untyped.
type sizes struct{ decoder admission.Decoder }

func (s sizes) Handle(_ context.Context, req admission.Request) admission.Response {
	u := &unstructured.Unstructured{}
	if err := s.decoder.Decode(req, u); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	_ = unstructured.SetNestedField(u.Object, "from the webhook", "spec", "note")
	_ = unstructured.SetNestedField(u.Object, "x", "spec", "unknown") // to be pruned
	b, err := u.MarshalJSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, b)
}

func noLatest(_ context.Context, req admission.Request) admission.Response {
	if strings.Contains(string(req.Object.Raw), ":latest") {
		return admission.Denied("no latest").WithWarnings("pin your images")
	}
	return admission.Allowed("")
}

// TestControllerRuntimeWebhooks has webhooks that controller-runtime serves
// change and refuse built-in kinds and custom resources.
func TestControllerRuntimeWebhooks(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"), "--disable-admission-plugins=ServiceAccount")
	ctx := t.Context()
	mux := http.NewServeMux()
	decoder := admission.NewDecoder(scheme.Scheme)
	mux.Handle("/sidecar", &webhook.Admission{Handler: sidecar{decoder}})
	mux.Handle("/sizes", &webhook.Admission{Handler: sizes{decoder}})
	mux.Handle("/latest", &webhook.Admission{Handler: admission.HandlerFunc(noLatest)})
	s := tlsServer(t, mux)
	hook := func(path string) admissionv1.WebhookClientConfig {
		url := s.URL + path
		return admissionv1.WebhookClientConfig{URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	}
	none := admissionv1.SideEffectClassNone
	rules := func(group, version, resource string) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}}}}
	}
	c, err := client.New(k.config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	must(t, c.Create(ctx, namespace("work")))
	must(t, c.Create(ctx, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Webhooks: []admissionv1.MutatingWebhook{
		{Name: "sidecar.example.com", ClientConfig: hook("/sidecar"), Rules: rules("", "v1", "pods"), SideEffects: &none, AdmissionReviewVersions: []string{"v1"}},
		{Name: "sizes.example.com", ClientConfig: hook("/sizes"), Rules: rules("example.com", "*", "widgets"), SideEffects: &none, AdmissionReviewVersions: []string{"v1"}},
	}}))
	must(t, c.Create(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Webhooks: []admissionv1.ValidatingWebhook{
		{Name: "latest.example.com", ClientConfig: hook("/latest"), Rules: rules("", "v1", "pods"), SideEffects: &none, AdmissionReviewVersions: []string{"v1"}},
	}}))

	pod := func(name, image string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "work"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
	}
	good := pod("good", "web:1")
	must(t, c.Create(ctx, good))
	if len(good.Spec.Containers) != 2 || good.Spec.Containers[1].TerminationMessagePath == "" {
		t.Errorf("the sidecar is missing or was not defaulted: %+v", good.Spec.Containers)
	}
	if err := c.Create(ctx, pod("bad", "web:latest")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `admission webhook "latest.example.com" denied the request: no latest`) {
		t.Errorf("got %v", err)
	}
	testCustomResources(t, k)
}

// testCustomResources puts custom resources under webhooks, policies with
// custom parameters, and quotas.
func testCustomResources(t *testing.T, k *kanzen) {
	ctx := t.Context()
	d, err := dynamic.NewForConfig(k.config())
	if err != nil {
		t.Fatal(err)
	}
	create := func(gvr schema.GroupVersionResource, namespace, text string) (*unstructured.Unstructured, error) {
		u := &unstructured.Unstructured{}
		must(t, json.Unmarshal([]byte(text), &u.Object))
		return d.Resource(gvr).Namespace(namespace).Create(ctx, u, metav1.CreateOptions{})
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	for _, names := range []string{`{"plural":"widgets","singular":"widget","kind":"Widget"}`, `{"plural":"limits","singular":"limit","kind":"Limit"}`} {
		var n struct{ Plural string }
		must(t, json.Unmarshal([]byte(names), &n))
		_, err := create(crds, "", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"`+n.Plural+`.example.com"},
			"spec":{"group":"example.com","scope":"Namespaced","names":`+names+`,"versions":[
			{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
			"size":{"type":"integer"},"note":{"type":"string"},"kept":{"type":"string"}}}}}}},
			{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
			"size":{"type":"integer"},"note":{"type":"string"},"kept":{"type":"string"}}}}}}}]}}`)
		must(t, err)
	}
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	limits := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "limits"}
	within(t, 10*time.Second, "limits are served", func(context.Context) bool {
		_, err := create(limits, "work", `{"apiVersion":"example.com/v1","kind":"Limit","metadata":{"name":"l"},"spec":{"size":5}}`)
		return err == nil
	})
	registration := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
	}
	for resource, text := range map[string]string{
		"validatingadmissionpolicies": `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"w"},"spec":{
			"paramKind":{"apiVersion":"example.com/v1","kind":"Limit"},
			"matchConstraints":{"resourceRules":[{"apiGroups":["example.com"],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["widgets"]}]},
			"validations":[{"expression":"object.spec.size <= params.spec.size","messageExpression":"'at most ' + string(params.spec.size) + ' of ' + object.apiVersion"}]}}`,
		"validatingadmissionpolicybindings": `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"w"},
			"spec":{"policyName":"w","validationActions":["Deny"],"paramRef":{"name":"l","parameterNotFoundAction":"Deny"}}}`,
		"mutatingadmissionpolicies": `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":"w"},"spec":{"reinvocationPolicy":"Never",
			"matchConstraints":{"resourceRules":[{"apiGroups":["example.com"],"apiVersions":["*"],"operations":["CREATE"],"resources":["widgets"]}]},
			"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{spec: Object.spec{kept: 'from the policy'}}"}}]}}`,
		"mutatingadmissionpolicybindings": `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicyBinding","metadata":{"name":"w"},"spec":{"policyName":"w"}}`,
	} {
		_, err := create(registration(resource), "", text)
		must(t, err)
	}
	w, err := create(widgets, "work", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":3}}`)
	must(t, err)
	want := map[string]any{"size": int64(3), "note": "from the webhook", "kept": "from the policy"}
	if got := w.Object["spec"]; !equal(got, want) {
		t.Errorf("spec %v, want %v", got, want)
	}
	// A policy for v1 sees what is written in v1beta1, as v1.
	beta := widgets
	beta.Version = "v1beta1"
	_, err = create(beta, "work", `{"apiVersion":"example.com/v1beta1","kind":"Widget","metadata":{"name":"b"},"spec":{"size":6}}`)
	if err == nil || !strings.Contains(err.Error(), "at most 5 of example.com/v1") || strings.Contains(err.Error(), "v1beta1") {
		t.Errorf("got %v", err)
	}
	quotas := schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
	q, err := create(quotas, "work", `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"count/widgets.example.com":"2"}}}`)
	must(t, err)
	// The controller in the process counts the one that there is.
	within(t, 20*time.Second, "the quota is counted", func(ctx context.Context) bool {
		q, err = d.Resource(quotas).Namespace("work").Get(ctx, "q", metav1.GetOptions{})
		used, _, _ := unstructured.NestedString(q.Object, "status", "used", "count/widgets.example.com")
		return err == nil && used == "1"
	})
	_, err = create(widgets, "work", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"c"},"spec":{"size":3}}`)
	must(t, err)
	_, err = create(widgets, "work", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"d"},"spec":{"size":3}}`)
	if err == nil || !strings.Contains(err.Error(), "exceeded quota: q, requested: count/widgets.example.com=1, used: count/widgets.example.com=2, limited: count/widgets.example.com=2") {
		t.Errorf("got %v", err)
	}
}

func equal(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
