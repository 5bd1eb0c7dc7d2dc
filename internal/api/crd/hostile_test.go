package crd_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// post sends a definition, which may be invalid, and returns the error.
func (c *cluster) post(d *unstructured.Unstructured) error {
	_, err := c.client.Resource(definitions).Create(c.Context(), d, metav1.CreateOptions{})
	return err
}

// schemaOf returns a definition with a schema of spec.
func schemaOf(c *cluster, plural, schema string) *unstructured.Unstructured {
	c.Helper()
	var s map[string]any
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		c.Fatal(err)
	}
	d := definition(plural, func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Names.Kind, d.Spec.Names.ShortNames = "Kind"+plural, nil
	})
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
	versions[0].(map[string]any)["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": s}}}
	if err := unstructured.SetNestedSlice(d.Object, versions, "spec", "versions"); err != nil {
		c.Fatal(err)
	}
	return d
}

// nested returns a schema of nested objects.
func nested(depth int) string {
	return strings.Repeat(`{"type":"object","properties":{"f":`, depth) + `{"type":"string"}` + strings.Repeat(`}}`, depth)
}

// Definitions that cannot be served in bounded time or memory are rejected.
func TestHostileDefinitions(t *testing.T) {
	c := start(t)
	for name, h := range map[string]struct{ schema, want string }{
		"a rule without bounds": {
			`{"type":"array","items":{"type":"string"},"x-kubernetes-validations":[{"rule":"self.all(a, self.all(b, self.all(c, self.all(d, a+b != c+d))))"}]}`,
			"estimated rule cost exceeds budget"},
		"many rules that are dear together": {
			`{"type":"object","properties":{` + strings.Join(fill(40, func(i int) string {
				return fmt.Sprintf(`"f%d":{"type":"array","maxItems":900,"items":{"type":"integer"},"x-kubernetes-validations":[{"rule":"self.all(a, self.all(b, a <= b + 1000))"}]}`, i)
			}), ",") + `}}`,
			"exceeds budget"},
		"a rule that is long": {
			`{"type":"string","maxLength":5,"x-kubernetes-validations":[{"rule":"` + strings.Repeat("(", 3000) + "self == ''" + strings.Repeat(")", 3000) + `"}]}`,
			"compilation failed"},
		"a rule that is no rule": {`{"type":"string","x-kubernetes-validations":[{"rule":"self.?.["}]}`, "compilation failed"},
		"a reference":            {`{"type":"object","properties":{"a":{"$ref":"#/definitions/a"}}}`, "$ref"},
		"a pattern of great size": {
			`{"type":"string","pattern":"((a{1,1000}){1,1000}){1,1000}"}`, "must be a valid regular expression"},
	} {
		if err := c.post(schemaOf(c, "hostiles", h.schema)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), h.want) {
			t.Errorf("%s: %.400v, want %q", name, err, h.want)
		}
	}
	// The server responds whatever the depth of a schema, and to the next request as well.
	for _, depth := range []int{100, 4000} {
		t.Logf("depth %d: %.200v", depth, c.post(schemaOf(c, fmt.Sprintf("deep%ds", depth), nested(depth))))
	}
	text, err := definition("bottomless", nil).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Replace(string(text), `"type":"integer"`, `"type":"object","properties":{"f":`+nested(20_000)+`}`, 1)
	resp, err := (&http.Client{Transport: c.config.Transport}).Post(c.config.Host+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("depth 20000: %s: %.200s", resp.Status, answer)
	}
	c.define(definition("things", nil))
}

func fill(n int, f func(i int) string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// Rules and patterns of an accepted definition have a budget for each object.
func TestHostileObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine computes")
	}
	c := start(t)
	c.define(schemaOf(c, "things", `{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
		"list":{"type":"array","maxItems":1000,"items":{"type":"integer"},"x-kubernetes-validations":[{"rule":"self.all(a, self.all(b, a - b < 100000))"}]},
		"text":{"type":"string","pattern":"^(a|aa|a*)*b$"},
		"names":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}}}`))
	create := func(name string, spec any) error {
		_, err := c.client.Resource(things("v1", "things")).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Kindthings", "metadata": map[string]any{"name": name}, "spec": spec}}, metav1.CreateOptions{})
		return err
	}
	numbers := make([]any, 1000)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	if err := create("dear", map[string]any{"list": numbers}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cost") {
		t.Errorf("a rule of great cost: %.300v", err)
	}
	if err := create("slow", map[string]any{"text": strings.Repeat("a", 500_000)}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "should match") {
		t.Errorf("a pattern that backtracks elsewhere: %.100v", err)
	}
	same := make([]any, 50_000)
	for i := range same {
		same[i] = fmt.Sprint(i)
	}
	same[len(same)-1] = "7"
	if err := create("set", map[string]any{"names": same}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "Duplicate value") {
		t.Errorf("a long set: %.300v", err)
	}
	wide := map[string]any{}
	for i := range 100_000 {
		wide[fmt.Sprintf("f%05d", i)] = int64(i % 10)
	}
	if err := create("wide", wide); err != nil {
		t.Errorf("many fields: %.300v", err)
	}
	apply := []byte(`{"apiVersion":"example.com/v1","kind":"Kindthings","metadata":{"name":"wide"},"spec":{"f00001":5}}`)
	force := true
	// Any response is correct: with its managed fields the object may be too large for etcd.
	_, err := c.client.Resource(things("v1", "things")).Patch(t.Context(), "wide", types.ApplyPatchType, apply, metav1.PatchOptions{FieldManager: "m", Force: &force})
	if err != nil && !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("apply to many fields: %.300v", err)
	}
	var deep any = "x"
	for range 9_000 {
		deep = map[string]any{"f": deep}
	}
	t.Logf("nested 9,000 deep: %.200v", create("deep", map[string]any{"any": deep}))
	var much runtime.MemStats
	runtime.ReadMemStats(&much)
	t.Logf("heap %d MB, from the system %d MB", much.HeapAlloc>>20, much.Sys>>20)
	if err := create("last", map[string]any{"text": "b"}); err != nil {
		t.Error(err)
	}
}

// A conversion webhook that hangs, or responds without end, blocks only requests for the version that it converts.
func TestHostileConversion(t *testing.T) {
	c := start(t)
	asked, release := make(chan struct{}, 10), make(chan struct{})
	flood := false
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if flood {
			zeros := make([]byte, 1<<20)
			for range 100 {
				if _, err := w.Write(zeros); err != nil {
					return
				}
			}
			return
		}
		asked <- struct{}{}
		<-release
	}))
	defer srv.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	c.define(definition("things", func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions = append(d.Spec.Versions, version("v2", "length"))
		d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &srv.URL, CABundle: ca}, ConversionReviewVersions: []string{"v1"}}}
	}))
	c.define(schemaOf(c, "others", `{"type":"object"}`))
	c.create("v1", "things", "a", map[string]any{"size": int64(1)})
	hanging := make(chan error, 1)
	go func() {
		_, err := c.client.Resource(things("v2", "things")).List(t.Context(), metav1.ListOptions{})
		hanging <- err
	}()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// All of this happens while the webhook hangs.
	for what, do := range map[string]func() error{
		"list in the stored version": func() error {
			_, err := c.client.Resource(things("v1", "things")).List(ctx, metav1.ListOptions{})
			return err
		},
		"write in the stored version": func() error { c.create("v1", "things", "b", nil); return nil },
		"list of another": func() error {
			_, err := c.client.Resource(things("v1", "others")).List(ctx, metav1.ListOptions{})
			return err
		},
		"definition of another": func() error { c.define(schemaOf(c, "more", `{"type":"object"}`)); return nil },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	close(release)
	if err := <-hanging; err == nil || !strings.Contains(err.Error(), "conversion webhook for example.com/v1, Kind=Thing failed") {
		t.Errorf("got %v", err)
	}
	flood = true
	if _, err := c.client.Resource(things("v2", "things")).Get(t.Context(), "a", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), "is longer than") {
		t.Errorf("an answer of 100 MB: %v", err)
	}
}
