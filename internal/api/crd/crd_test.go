package crd_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// cluster is a server with clients to it.
type cluster struct {
	*testing.T
	config *rest.Config
	client dynamic.Interface
}

func start(t *testing.T) *cluster {
	s := kanzentest.Start(t)
	return &cluster{t, s.Config(), dynamic.NewForConfigOrDie(s.Config())}
}

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// definition returns a definition of the kind Thing, changed by edit.
func definition(plural string, edit func(d *apiextensionsv1.CustomResourceDefinition)) *unstructured.Unstructured {
	d := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: "Thing", ShortNames: []string{"th"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", "size")},
		},
	}
	d.Spec.Versions[0].Storage = true
	if edit != nil {
		edit(d)
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
	if err != nil {
		panic(err)
	}
	return &unstructured.Unstructured{Object: m}
}

// version returns a served version whose spec has integer fields.
func version(name string, fields ...string) apiextensionsv1.CustomResourceDefinitionVersion {
	props := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, f := range fields {
		props[f] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
	}
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: name, Served: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: props}}}},
	}
}

func (c *cluster) define(d *unstructured.Unstructured) {
	c.Helper()
	if _, err := c.client.Resource(definitions).Create(c.Context(), d, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	c.await(d.GetName(), "Established", "True", "InitialNamesAccepted")
}

// await waits for a condition of a definition.
func (c *cluster) await(name, condition, status, reason string) {
	c.Helper()
	w, err := c.client.Resource(definitions).Watch(c.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		c.Fatal(err)
	}
	defer w.Stop()
	var last any
	for {
		select {
		case e := <-w.ResultChan():
			list, _, _ := unstructured.NestedSlice(e.Object.(*unstructured.Unstructured).Object, "status", "conditions")
			for _, have := range list {
				m := have.(map[string]any)
				if m["type"] == condition && m["status"] == status && m["reason"] == reason {
					return
				}
			}
			last = list
		case <-time.After(time.Minute):
			c.Fatalf("%s is not %s=%s (%s); its conditions are %v", name, condition, status, reason, last)
		}
	}
}

func things(version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "example.com", Version: version, Resource: plural}
}

func thing(version, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Thing", "metadata": map[string]any{"name": name}, "spec": spec}}
}

func (c *cluster) create(version, plural, name string, spec map[string]any) {
	c.Helper()
	if _, err := c.client.Resource(things(version, plural)).Create(c.Context(), thing(version, name, spec), metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// A defined resource is served, listed in discovery, and removed with its definition.
func TestLifecycle(t *testing.T) {
	c := start(t)
	c.define(definition("things", nil))
	c.create("v1", "things", "a", map[string]any{"size": int64(1)})
	held := thing("v1", "held", nil)
	held.SetFinalizers([]string{"example.com/hold"})
	if _, err := c.client.Resource(things("v1", "things")).Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d := discovery.NewDiscoveryClientForConfigOrDie(c.config)
	list, err := d.ServerResourcesForGroupVersion("example.com/v1")
	if err != nil || len(list.APIResources) != 1 || list.APIResources[0].Kind != "Thing" {
		t.Errorf("discovery says %v, %v", list, err)
	}
	if err := c.client.Resource(definitions).Delete(t.Context(), "things.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The finalizer keeps an object; none can be added.
	c.await("things.example.com", "Terminating", "True", "InstanceDeletionInProgress")
	_, err = c.client.Resource(things("v1", "things")).Create(t.Context(), thing("v1", "late", nil), metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("create while the definition goes: %v", err)
	}
	// It still gets new names.
	patch := []byte(`{"spec":{"names":{"categories":["all"]}}}`)
	if _, err := c.client.Resource(definitions).Patch(t.Context(), "things.example.com", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		d, err := c.client.Resource(definitions).Get(t.Context(), "things.example.com", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedStringSlice(d.Object, "status", "acceptedNames", "categories"); len(got) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the definition does not get new names")
		}
	}
	patch = []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := c.client.Resource(things("v1", "things")).Patch(t.Context(), "held", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if _, err := c.client.Resource(definitions).Get(t.Context(), "things.example.com", metav1.GetOptions{}); apierrors.IsNotFound(err) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the definition stays")
		}
		time.Sleep(10 * time.Millisecond)
	}
	// A new definition starts without objects.
	c.define(definition("things", nil))
	all, err := c.client.Resource(things("v1", "things")).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 0 {
		t.Errorf("of the old things there are %v, %v", all, err)
	}
}

// Two definitions request the same kind: the second gets it when the first has been deleted.
func TestNameConflict(t *testing.T) {
	c := start(t)
	c.define(definition("things", nil))
	second := definition("objects", func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Names.ShortNames = nil })
	if _, err := c.client.Resource(definitions).Create(t.Context(), second, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.await("objects.example.com", "NamesAccepted", "False", "ListKindConflict")
	if _, err := c.client.Resource(things("v1", "objects")).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what has no name is served: %v", err)
	}
	if err := c.client.Resource(definitions).Delete(t.Context(), "things.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.await("objects.example.com", "Established", "True", "InitialNamesAccepted")
}

// A changed schema applies to stored objects: unknown fields are hidden, new defaults are set. Watches end, so that
// clients restart them.
func TestSchemaChange(t *testing.T) {
	c := start(t)
	c.define(definition("things", nil))
	c.create("v1", "things", "a", map[string]any{"size": int64(1)})
	w, err := c.client.Resource(things("v1", "things")).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Added {
		t.Fatalf("got %v", e)
	}
	patch := `[{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec","value":
		{"type":"object","properties":{"weight":{"type":"integer","default":7}}}}]`
	if _, err := c.client.Resource(definitions).Patch(t.Context(), "things.example.com", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if e, open := <-w.ResultChan(); open {
		t.Errorf("the watch went on: %v", e)
	}
	got, err := c.client.Resource(things("v1", "things")).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]any{"weight": int64(7)}; fmt.Sprint(got.Object["spec"]) != fmt.Sprint(want) {
		t.Errorf("spec is %v, want %v", got.Object["spec"], want)
	}
}

// converter is a conversion webhook that moves spec.size (v1) to spec.length (v2).
type converter struct {
	calls, objects atomic.Int64
	// answer, if set, replaces the correct response.
	answer atomic.Pointer[func(w http.ResponseWriter, review *apiextensionsv1.ConversionReview)]
}

func (v *converter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v.calls.Add(1)
	v.objects.Add(int64(len(review.Request.Objects)))
	review.Response = &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		var m map[string]any
		_ = json.Unmarshal(raw.Raw, &m)
		m["apiVersion"] = review.Request.DesiredAPIVersion
		if spec, ok := m["spec"].(map[string]any); ok {
			from, to := "size", "length"
			if strings.HasSuffix(review.Request.DesiredAPIVersion, "v1") {
				from, to = to, from
			}
			spec[to] = spec[from]
			delete(spec, from)
		}
		b, _ := json.Marshal(m)
		review.Response.ConvertedObjects = append(review.Response.ConvertedObjects, runtime.RawExtension{Raw: b})
	}
	if f := v.answer.Load(); f != nil {
		(*f)(w, &review)
		return
	}
	_ = json.NewEncoder(w).Encode(review)
}

// A webhook converts versions: a whole list in one call, each object once. Its mistakes are errors, and do not affect
// other resources.
func TestConversionWebhook(t *testing.T) {
	c := start(t)
	hook := &converter{}
	srv := httptest.NewTLSServer(hook)
	defer srv.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	c.define(definition("things", func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions = append(d.Spec.Versions, version("v2", "length"))
		d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &srv.URL, CABundle: ca},
				ConversionReviewVersions: []string{"v1"},
			},
		}
	}))
	const n = 20
	for i := range n {
		c.create("v1", "things", fmt.Sprintf("t%02d", i), map[string]any{"size": int64(i)})
	}
	if hook.calls.Load() != 0 {
		t.Errorf("%d calls for objects of the stored version", hook.calls.Load())
	}
	v2 := c.client.Resource(things("v2", "things"))
	for range 2 { // the second response is served from the converted objects
		list, err := v2.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range list.Items {
			if length, _, _ := unstructured.NestedInt64(o.Object, "spec", "length"); length != int64(i) || o.GetAPIVersion() != "example.com/v2" {
				t.Errorf("item %d is %v", i, o.Object)
			}
		}
		if len(list.Items) != n || hook.calls.Load() != 1 || hook.objects.Load() != n {
			t.Fatalf("%d items after %d calls about %d objects", len(list.Items), hook.calls.Load(), hook.objects.Load())
		}
	}
	// A write in the other version is stored in the storage version.
	c.create("v2", "things", "new", map[string]any{"length": int64(99)})
	got, err := c.client.Resource(things("v1", "things")).Get(t.Context(), "new", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedInt64(got.Object, "spec", "size"); size != 99 {
		t.Errorf("stored is %v", got.Object)
	}

	for name, wrong := range map[string]func(w http.ResponseWriter, review *apiextensionsv1.ConversionReview){
		"fails":            func(w http.ResponseWriter, _ *apiextensionsv1.ConversionReview) { w.WriteHeader(http.StatusTeapot) },
		"is no review":     func(w http.ResponseWriter, _ *apiextensionsv1.ConversionReview) { _, _ = w.Write([]byte("<html>")) },
		"loses objects":    edited(func(r *apiextensionsv1.ConversionResponse) { r.ConvertedObjects = nil }),
		"answers another":  edited(func(r *apiextensionsv1.ConversionResponse) { r.UID = "other" }),
		"renames":          edited(replace(`"name":"`, `"name":"x`)),
		"keeps the kind's": edited(replace(`"kind":"Thing"`, `"kind":"Other"`)),
		"keeps version":    edited(replace("example.com/v2", "example.com/v1")),
		"takes metadata":   edited(replace(`"metadata":`, `"metadata":null,"meta":`)),
	} {
		hook.answer.Store(&wrong)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := v2.Patch(ctx, "t00", types.MergePatchType, []byte(`{"spec":{"length":5}}`), metav1.PatchOptions{})
		cancel()
		var status apierrors.APIStatus
		if status, _ = err.(apierrors.APIStatus); status == nil || status.Status().Code != http.StatusInternalServerError || !strings.Contains(err.Error(), "conversion webhook for") {
			t.Errorf("a webhook that %s: %v", name, err)
		}
		if _, err := c.client.Resource(things("v1", "things")).Get(t.Context(), "t00", metav1.GetOptions{}); err != nil {
			t.Errorf("a webhook that %s: the stored version: %v", name, err)
		}
	}
	hook.answer.Store(nil)
	if _, err := v2.Patch(t.Context(), "t00", types.MergePatchType, []byte(`{"spec":{"length":5}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// edited returns a response with a fault in it.
func edited(f func(r *apiextensionsv1.ConversionResponse)) func(http.ResponseWriter, *apiextensionsv1.ConversionReview) {
	return func(w http.ResponseWriter, review *apiextensionsv1.ConversionReview) {
		f(review.Response)
		_ = json.NewEncoder(w).Encode(review)
	}
}

func replace(old, with string) func(r *apiextensionsv1.ConversionResponse) {
	return func(r *apiextensionsv1.ConversionResponse) {
		for i := range r.ConvertedObjects {
			r.ConvertedObjects[i].Raw = []byte(strings.Replace(string(r.ConvertedObjects[i].Raw), old, with, 1))
		}
	}
}
