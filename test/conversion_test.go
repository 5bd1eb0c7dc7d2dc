package test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

var (
	boxesV1 = schema.GroupVersion{Group: "boxes.example.com", Version: "v1"}
	boxesV2 = schema.GroupVersion{Group: "boxes.example.com", Version: "v2"}
)

// boxV2 is the hub: its size is a length with a unit.
type boxV2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              boxV2Spec `json:"spec,omitempty"`
}

type boxV2Spec struct {
	Length string `json:"length,omitempty"`
	Note   string `json:"note,omitempty"`
}

func (*boxV2) Hub() {}

func (b *boxV2) DeepCopyObject() runtime.Object {
	out := &boxV2{TypeMeta: b.TypeMeta, Spec: b.Spec}
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

type boxV2List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []boxV2 `json:"items"`
}

func (l *boxV2List) DeepCopyObject() runtime.Object {
	out := &boxV2List{TypeMeta: l.TypeMeta, ListMeta: l.ListMeta}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*boxV2))
	}
	return out
}

// boxV1 is a spoke: its size is a number of centimeters.
type boxV1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              boxV1Spec `json:"spec,omitempty"`
}

type boxV1Spec struct {
	Size int    `json:"size,omitempty"`
	Note string `json:"note,omitempty"`
}

func (b *boxV1) DeepCopyObject() runtime.Object {
	out := &boxV1{TypeMeta: b.TypeMeta, Spec: b.Spec}
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// ConvertTo is part of conversion.Convertible.
func (b *boxV1) ConvertTo(hub conversion.Hub) error {
	to := hub.(*boxV2)
	to.ObjectMeta = b.ObjectMeta
	to.Spec.Note = b.Spec.Note
	if b.Spec.Size != 0 {
		to.Spec.Length = fmt.Sprintf("%dcm", b.Spec.Size)
	}
	return nil
}

// ConvertFrom is part of conversion.Convertible.
func (b *boxV1) ConvertFrom(hub conversion.Hub) (err error) {
	from := hub.(*boxV2)
	b.ObjectMeta = from.ObjectMeta
	b.Spec.Note = from.Spec.Note
	if from.Spec.Length != "" {
		b.Spec.Size, err = strconv.Atoi(strings.TrimSuffix(from.Spec.Length, "cm"))
	}
	return err
}

// boxDefinition defines boxes, which a webhook converts.
func boxDefinition(c apiextensionsv1.WebhookClientConfig) *apiextensionsv1.CustomResourceDefinition {
	version := func(name, field, kind string) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{field: {Type: kind}, "note": {Type: "string"}}}}}}}
	}
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "boxes." + boxesV1.Group}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: boxesV1.Group, Scope: apiextensionsv1.NamespaceScoped,
		Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "boxes", Kind: "Box"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", "size", "integer"), version("v2", "length", "string")},
		Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &c, ConversionReviewVersions: []string{"v1"}}},
	}}
	d.Spec.Versions[0].Storage = true
	return d
}

func boxScheme(t *testing.T) *runtime.Scheme {
	s := runtime.NewScheme()
	must(t, apiextensionsv1.AddToScheme(s))
	s.AddKnownTypeWithName(boxesV1.WithKind("Box"), &boxV1{})
	s.AddKnownTypeWithName(boxesV2.WithKind("Box"), &boxV2{})
	s.AddKnownTypeWithName(boxesV2.WithKind("BoxList"), &boxV2List{})
	metav1.AddToGroupVersion(s, boxesV1)
	metav1.AddToGroupVersion(s, boxesV2)
	return s
}

// convertBoxes serves the conversion of boxes as operators do, with a manager
// and its webhook server, until the test ends.
func convertBoxes(t *testing.T, k *kanzen, s *runtime.Scheme) apiextensionsv1.WebhookClientConfig {
	certs := tlsServer(t, http.NotFoundHandler())
	port := freePort(t)
	number, err := strconv.Atoi(port)
	must(t, err)
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: number, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certs.TLS.Certificates[0], nil }
	}}})
	m, err := ctrl.NewManager(k.config(), ctrl.Options{Scheme: s, WebhookServer: server, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard()})
	must(t, err)
	must(t, ctrl.NewWebhookManagedBy(m, &boxV1{}).Complete())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	within(t, 20*time.Second, "the webhook listens", func(context.Context) bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	url := "https://127.0.0.1:" + port + "/convert"
	return apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certs.Certificate().Raw})}
}

func box1(name string, size int) *boxV1 {
	return &boxV1{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: boxV1Spec{Size: size}}
}

// TestControllerRuntimeConversion has a conversion webhook that
// controller-runtime serves convert between a hub and a spoke, through the life
// of an API: both versions in use, then the storage version changed, the
// objects rewritten and the old version dropped.
func TestControllerRuntimeConversion(t *testing.T) {
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	s := boxScheme(t)
	c, err := client.NewWithWatch(k.config(), client.Options{Scheme: s})
	must(t, err)
	ctx := t.Context()
	hook := convertBoxes(t, k, s)
	must(t, c.Create(ctx, boxDefinition(hook)))
	within(t, 10*time.Second, "boxes are served", func(ctx context.Context) bool { return c.List(ctx, &boxV2List{}) == nil })

	w, err := c.Watch(ctx, &boxV2List{}, client.InNamespace("default"))
	must(t, err)
	defer w.Stop()
	for i := range 5 {
		must(t, c.Create(ctx, box1(fmt.Sprint("b", i), i+1)))
		e := <-w.ResultChan()
		if b, ok := e.Object.(*boxV2); !ok || b.Name != fmt.Sprint("b", i) || b.Spec.Length != fmt.Sprint(i+1, "cm") {
			t.Fatalf("event %s of %+v", e.Type, e.Object)
		}
	}
	key := client.ObjectKey{Namespace: "default", Name: "b0"}
	var hub boxV2
	must(t, c.Get(ctx, key, &hub))
	if hub.Spec.Length != "1cm" {
		t.Errorf("got %+v", hub.Spec)
	}
	hub.Spec.Length = "7cm"
	must(t, c.Update(ctx, &hub))
	var spoke boxV1
	if must(t, c.Get(ctx, key, &spoke)); spoke.Spec.Size != 7 || spoke.Generation != 2 {
		t.Errorf("got %+v, generation %d", spoke.Spec, spoke.Generation)
	}
	testApplyInTwoVersions(t, c)
	testMigration(t, c)
}

// applyBox applies JSON as a manager.
func applyBox(ctx context.Context, c client.Client, manager, text string, o ...client.PatchOption) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		return nil, err
	}
	return u, c.Patch(ctx, u, client.RawPatch(types.ApplyPatchType, []byte(text)), append(o, client.FieldOwner(manager))...)
}

// testApplyInTwoVersions has two managers apply one object, each in its version.
func testApplyInTwoVersions(t *testing.T, c client.Client) {
	ctx := t.Context()
	const old = `{"apiVersion":"boxes.example.com/v1","kind":"Box","metadata":{"name":"applied","namespace":"default"},"spec":{"size":4}}`
	const note = `{"apiVersion":"boxes.example.com/v2","kind":"Box","metadata":{"name":"applied","namespace":"default"},"spec":{"note":"n"}}`
	const both = `{"apiVersion":"boxes.example.com/v2","kind":"Box","metadata":{"name":"applied","namespace":"default"},"spec":{"note":"n","length":"9cm"}}`
	_, err := applyBox(ctx, c, "old", old)
	must(t, err)
	u, err := applyBox(ctx, c, "new", note)
	must(t, err)
	if want := map[string]any{"length": "4cm", "note": "n"}; !equal(u.Object["spec"], want) {
		t.Errorf("spec %v, want %v", u.Object["spec"], want)
	}
	managers := map[string]string{}
	for _, m := range u.GetManagedFields() {
		managers[m.Manager] = m.APIVersion + m.FieldsV1.GetRawString()
	}
	if want := map[string]string{"old": `boxes.example.com/v1{"f:spec":{"f:size":{}}}`, "new": `boxes.example.com/v2{"f:spec":{"f:note":{}}}`}; !equal(managers, want) {
		t.Errorf("managers %v, want %v", managers, want)
	}
	// What a webhook makes of a field under another name, nobody knows to be
	// the same: the size that the one applied is the length of the other only
	// when the object is converted, so this is no conflict but a change.
	u, err = applyBox(ctx, c, "new", both, client.ForceOwnership)
	must(t, err)
	if want := map[string]any{"length": "9cm", "note": "n"}; !equal(u.Object["spec"], want) {
		t.Errorf("spec %v, want %v", u.Object["spec"], want)
	}
	// A manager that gives a field up in its version takes it out of both.
	u, err = applyBox(ctx, c, "new", strings.Replace(both, `"note":"n",`, ``, 1))
	must(t, err)
	if want := map[string]any{"length": "9cm"}; !equal(u.Object["spec"], want) {
		t.Errorf("spec %v, want %v", u.Object["spec"], want)
	}
}

// testMigration makes v2 the stored version, rewrites all objects, and drops v1.
func testMigration(t *testing.T, c client.Client) {
	ctx := t.Context()
	name := client.ObjectKey{Name: "boxes." + boxesV1.Group}
	change := func(f func(d *apiextensionsv1.CustomResourceDefinition), write func(d *apiextensionsv1.CustomResourceDefinition) error) (d apiextensionsv1.CustomResourceDefinition, err error) {
		err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := c.Get(ctx, name, &d); err != nil {
				return err
			}
			f(&d)
			return write(&d)
		})
		return d, err
	}
	spec := func(d *apiextensionsv1.CustomResourceDefinition) error { return c.Update(ctx, d) }
	status := func(d *apiextensionsv1.CustomResourceDefinition) error { return c.Status().Update(ctx, d) }
	dropV1 := func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions = slices.DeleteFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1" })
		d.Spec.Conversion = nil
	}
	d, err := change(func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Spec.Versions[0].Storage, d.Spec.Versions[1].Storage = false, true
	}, spec)
	must(t, err)
	if !slices.Equal(d.Status.StoredVersions, []string{"v1", "v2"}) {
		t.Errorf("stored versions %v", d.Status.StoredVersions)
	}
	if _, err := change(dropV1, spec); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "storedVersions") {
		t.Errorf("a version that is stored was dropped: %v", err)
	}
	var all boxV2List
	within(t, 10*time.Second, "boxes are listed", func(ctx context.Context) bool { return c.List(ctx, &all) == nil })
	before := map[string]string{}
	for i := range all.Items {
		b := &all.Items[i]
		before[b.Name] = b.ResourceVersion
		must(t, c.Update(ctx, b)) // changes nothing but the version that is stored
		if b.ResourceVersion == before[b.Name] {
			t.Errorf("%s was not rewritten", b.Name)
		}
	}
	if len(all.Items) != 6 {
		t.Errorf("%d boxes", len(all.Items))
	}
	_, err = change(func(d *apiextensionsv1.CustomResourceDefinition) { d.Status.StoredVersions = []string{"v2"} }, status)
	must(t, err)
	_, err = change(dropV1, spec)
	must(t, err)
	within(t, 10*time.Second, "the old version is served no more", func(ctx context.Context) bool {
		return apierrors.IsNotFound(c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "b0"}, &boxV1{}))
	})
	var after boxV2List
	must(t, c.List(ctx, &after))
	if len(after.Items) != len(all.Items) || after.Items[2].Spec.Length != "2cm" {
		t.Errorf("got %+v", after.Items)
	}
	if u, err := applyBox(ctx, c, "later", `{"apiVersion":"boxes.example.com/v2","kind":"Box","metadata":{"name":"applied","namespace":"default"},"spec":{"note":"still"}}`); err != nil {
		t.Errorf("apply after the migration: %v, %v", u, err)
	}
}
