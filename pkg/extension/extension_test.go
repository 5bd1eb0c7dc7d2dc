package extension_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/extension"
	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// Thing is the kind of the tests.
type Thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ThingSpec   `json:"spec,omitempty" doc:"What it is to be."`
	Status            ThingStatus `json:"status,omitempty"`
}

// ThingSpec is the spec of a Thing.
type ThingSpec struct {
	Size   int      `json:"size,omitempty" default:"1" doc:"How large it is."`
	Color  string   `json:"color,omitempty"`
	Labels []string `json:"labels,omitempty"`
}

// ThingStatus is the status of a Thing.
type ThingStatus struct {
	Phase string `json:"phase,omitempty"`
}

var things = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}

// start starts a server of one kind; see run.
func start(t *testing.T, k extension.Kind[Thing], edit func(o *extension.Options)) *rest.Config {
	t.Helper()
	s := &extension.Server{Group: things.Group, Version: things.Version}
	extension.Add(s, k)
	o := extension.Options{Storage: extension.Memory()}
	if edit != nil {
		edit(&o)
	}
	return run(t, s, o)
}

// run runs an extension server on a host cluster, and returns how the administrator of that reaches it.
func run(t *testing.T, s *extension.Server, o extension.Options) *rest.Config {
	t.Helper()
	if o.Host == nil {
		o.Host = hostCluster(t)
	}
	o.Listen = "127.0.0.1:0"
	ctx, cancel := context.WithCancel(context.Background())
	r, err := s.Start(ctx, o)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := r.Wait(); err != nil {
			t.Error(err)
		}
	})
	c := rest.CopyConfig(o.Host)
	c.Host, c.CAFile, c.CAData = "https://"+r.Address(), "", r.CABundle()
	return c
}

func hostCluster(t *testing.T) *rest.Config {
	t.Helper()
	return kanzentest.Start(t, kanzentest.Listen(), kanzentest.Controllers()).SocketConfig()
}

func in(t *testing.T, c *rest.Config) dynamic.ResourceInterface {
	t.Helper()
	return dynamic.NewForConfigOrDie(c).Resource(things).Namespace("default")
}

func thing(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"name": name}, "spec": spec}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, w watch.Interface, kind watch.EventType, name string) {
	t.Helper()
	select {
	case e := <-w.ResultChan():
		if o, ok := e.Object.(*unstructured.Unstructured); !ok || e.Type != kind || o.GetName() != name {
			t.Errorf("%s %v, want %s %s", e.Type, e.Object, kind, name)
		}
	case <-time.After(time.Minute):
		t.Errorf("no event %s %s", kind, name)
	}
}

// TestVerbs goes through what clients do with a kind, wherever its objects are.
func TestVerbs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind extension.Kind[Thing]
		edit func(o *extension.Options)
	}{
		"memory":    {},
		"etcd":      {edit: func(o *extension.Options) { o.Storage, o.DataDir = extension.Embedded(), t.TempDir() }},
		"functions": {kind: extension.Kind[Thing]{Functions: newTable().functions()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testVerbs(t, start(t, c.kind, c.edit))
		})
	}
}

func testVerbs(t *testing.T, c *rest.Config) {
	ctx, all := t.Context(), in(t, c)
	w, err := all.Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer w.Stop()
	made, err := all.Create(ctx, thing("a", map[string]any{"color": "red"}), metav1.CreateOptions{})
	must(t, err)
	if size, _, _ := unstructured.NestedInt64(made.Object, "spec", "size"); size != 1 || made.GetUID() == "" {
		t.Errorf("created %v", made.Object)
	}
	next(t, w, watch.Added, "a")
	if _, err := all.Create(ctx, thing("a", nil), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created again: %v", err)
	}
	if _, err := all.Create(ctx, thing("b", map[string]any{"size": "large"}), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("created with a wrong type: %v", err)
	}
	_, err = all.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"size":2},"status":{"phase":"no"}}`), metav1.PatchOptions{})
	must(t, err)
	next(t, w, watch.Modified, "a")
	_, err = all.Patch(ctx, "a", types.MergePatchType, []byte(`{"status":{"phase":"Done"}}`), metav1.PatchOptions{}, "status")
	must(t, err)
	next(t, w, watch.Modified, "a")
	_, err = all.Apply(ctx, "a", thing("a", map[string]any{"size": int64(3)}), metav1.ApplyOptions{FieldManager: "me"})
	if !apierrors.IsConflict(err) {
		t.Errorf("applied what another set: %v", err)
	}
	_, err = all.Apply(ctx, "b", thing("b", map[string]any{"labels": []any{"x"}}), metav1.ApplyOptions{FieldManager: "me"})
	must(t, err)
	next(t, w, watch.Added, "b")
	if _, err := all.Create(ctx, thing("dry", nil), metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
		t.Error(err)
	}
	got, err := all.Get(ctx, "a", metav1.GetOptions{})
	must(t, err)
	phase, _, _ := unstructured.NestedString(got.Object, "status", "phase")
	size, _, _ := unstructured.NestedInt64(got.Object, "spec", "size")
	if phase != "Done" || size != 2 || got.GetUID() != made.GetUID() || got.GetGeneration() != 2 || len(got.GetManagedFields()) != 2 {
		t.Errorf("got %v", got.Object)
	}
	stale := made.DeepCopy()
	if _, err := all.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("updated an old version: %v", err)
	}
	list, err := all.List(ctx, metav1.ListOptions{Limit: 1})
	must(t, err)
	if len(list.Items) != 1 || list.GetContinue() == "" {
		t.Errorf("a page of %d", len(list.Items))
	}
	must(t, all.Delete(ctx, "a", metav1.DeleteOptions{}))
	next(t, w, watch.Deleted, "a")
	if _, err := all.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get what is deleted: %v", err)
	}
}

// table is a database of things: name to spec and status, nothing else.
type table struct {
	mu      sync.Mutex
	rows    map[string]Thing
	changed chan struct{}
	err     error
}

func newTable() *table { return &table{rows: map[string]Thing{}, changed: make(chan struct{}, 1)} }

func (s *table) set(f func(rows map[string]Thing)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.rows)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *table) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *table) functions() *extension.Functions[Thing] {
	return &extension.Functions[Thing]{
		List: func(context.Context) ([]*Thing, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			var out []*Thing
			for key, row := range s.rows {
				row.Namespace, row.Name, _ = strings.Cut(key, "/")
				out = append(out, &row)
			}
			return out, s.err
		},
		Watch: func(ctx context.Context, changed func()) error {
			for {
				select {
				case <-s.changed:
					changed()
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		},
		Save: func(_ context.Context, obj, old *Thing) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if _, there := s.rows[obj.Namespace+"/"+obj.Name]; there != (old != nil) {
				return fmt.Errorf("old is %v", old)
			}
			if s.err == nil {
				s.rows[obj.Namespace+"/"+obj.Name] = Thing{Spec: obj.Spec, Status: obj.Status}
			}
			return s.err
		},
		Delete: func(_ context.Context, obj *Thing) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.rows, obj.Namespace+"/"+obj.Name)
			return s.err
		},
	}
}

// What changes behind the functions is seen by reads at once, and by watches.
func TestFunctionsFollow(t *testing.T) {
	t.Parallel()
	rows := newTable()
	all := in(t, start(t, extension.Kind[Thing]{Functions: rows.functions()}, nil))
	ctx := t.Context()
	w, err := all.Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer w.Stop()
	rows.set(func(rows map[string]Thing) { rows["default/x"] = Thing{Spec: ThingSpec{Size: 1}} })
	first, err := all.Get(ctx, "x", metav1.GetOptions{})
	must(t, err)
	next(t, w, watch.Added, "x")
	rows.set(func(rows map[string]Thing) { rows["default/x"] = Thing{Spec: ThingSpec{Size: 7}} })
	next(t, w, watch.Modified, "x")
	second, err := all.Get(ctx, "x", metav1.GetOptions{})
	must(t, err)
	if size, _, _ := unstructured.NestedInt64(second.Object, "spec", "size"); size != 7 || first.GetUID() != second.GetUID() ||
		first.GetResourceVersion() == second.GetResourceVersion() {
		t.Errorf("%v, then %v", first.Object, second.Object)
	}
	if first.GetCreationTimestamp() != second.GetCreationTimestamp() {
		t.Errorf("created at %v, then at %v", first.GetCreationTimestamp(), second.GetCreationTimestamp())
	}
	rows.set(func(rows map[string]Thing) { delete(rows, "default/x") })
	next(t, w, watch.Deleted, "x")

	rows.fail(apierrors.NewForbidden(things.GroupResource(), "y", fmt.Errorf("the table says no")))
	if _, err := all.Create(ctx, thing("y", nil), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("create: %v", err)
	}
	rows.fail(fmt.Errorf("the table is locked"))
	if _, err := all.List(ctx, metav1.ListOptions{}); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "locked") {
		t.Errorf("list: %v", err)
	}
	rows.fail(nil)
	if list, err := all.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
}

// A write that builds on what is no longer there is refused, or made again on what is.
func TestFunctionsConflict(t *testing.T) {
	t.Parallel()
	rows := newTable()
	f := rows.functions()
	f.Watch = nil
	all := in(t, start(t, extension.Kind[Thing]{Functions: f}, nil))
	ctx := t.Context()
	old, err := all.Create(ctx, thing("x", map[string]any{"color": "red"}), metav1.CreateOptions{})
	must(t, err)
	rows.set(func(rows map[string]Thing) { rows["default/x"] = Thing{Spec: ThingSpec{Size: 7}} })
	if _, err := all.Update(ctx, old, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("updated an old version: %v", err)
	}
	rows.set(func(rows map[string]Thing) { rows["default/x"] = Thing{Spec: ThingSpec{Size: 8}} })
	now, err := all.Patch(ctx, "x", types.MergePatchType, []byte(`{"spec":{"color":"blue"}}`), metav1.PatchOptions{})
	must(t, err)
	if size, _, _ := unstructured.NestedInt64(now.Object, "spec", "size"); size != 8 {
		t.Errorf("patched %v", now.Object)
	}
	rows.set(func(rows map[string]Thing) { rows["default/y"] = Thing{} })
	if _, err := all.Create(ctx, thing("y", nil), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created what is there: %v", err)
	}
}

// Without Save and Delete there are only the verbs that read.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	f := newTable().functions()
	f.Save, f.Delete = nil, nil
	c := start(t, extension.Kind[Thing]{Functions: f}, nil)
	all := in(t, c)
	if _, err := all.Create(t.Context(), thing("a", nil), metav1.CreateOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("create: %v", err)
	}
	served, err := discovery.NewDiscoveryClientForConfigOrDie(c).ServerResourcesForGroupVersion("example.com/v1")
	must(t, err)
	if len(served.APIResources) != 1 || strings.Join(served.APIResources[0].Verbs, " ") != "get list watch" {
		t.Errorf("discovery has %v", served.APIResources)
	}
}

// The author's validation comes after the schema's.
func TestValidate(t *testing.T) {
	t.Parallel()
	all := in(t, start(t, extension.Kind[Thing]{Validate: func(_ context.Context, obj, old *Thing) field.ErrorList {
		if old != nil && obj.Spec.Size < old.Spec.Size {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "size"), obj.Spec.Size, "may not shrink")}
		}
		return nil
	}}, nil))
	_, err := all.Create(t.Context(), thing("a", map[string]any{"size": int64(2)}), metav1.CreateOptions{})
	must(t, err)
	_, err = all.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"size":1}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "may not shrink") {
		t.Errorf("shrunk: %v", err)
	}
}

// Who the host cluster does not know, or does not allow, gets nothing.
func TestDelegated(t *testing.T) {
	t.Parallel()
	c := start(t, extension.Kind[Thing]{}, nil)
	c.Impersonate.UserName = "nobody"
	if _, err := in(t, c).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "nobody" cannot list resource "things" in API group "example.com"`) {
		t.Errorf("nobody: %v", err)
	}
	anonymous := rest.AnonymousClientConfig(c)
	if _, err := in(t, anonymous).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("anonymous: %v", err)
	}
	anonymous.BearerToken = "wrong"
	if _, err := in(t, anonymous).List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a wrong token: %v", err)
	}
	anonymous.BearerToken = ""
	health := discovery.NewDiscoveryClientForConfigOrDie(anonymous).RESTClient()
	if b, err := health.Get().AbsPath("/readyz").DoRaw(t.Context()); err != nil || string(b) != "ok" {
		t.Errorf("health: %s, %v", b, err)
	}
	if _, err := health.Get().AbsPath("/metrics").DoRaw(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("metrics for anybody: %v", err)
	}
}

// The documents have the kind and no built-in one.
func TestDocuments(t *testing.T) {
	t.Parallel()
	d := discovery.NewDiscoveryClientForConfigOrDie(start(t, extension.Kind[Thing]{}, nil))
	paths, err := d.OpenAPIV3().Paths()
	must(t, err)
	if len(paths) != 1 || paths["apis/example.com/v1"] == nil {
		t.Fatalf("paths %v", paths)
	}
	v3, err := paths["apis/example.com/v1"].Schema("application/json")
	must(t, err)
	v2, err := d.OpenAPISchema()
	must(t, err)
	names := map[string]bool{}
	for _, s := range v2.Definitions.AdditionalProperties {
		names[s.Name] = true
	}
	if !strings.Contains(string(v3), "How large it is.") || !names["com.example.v1.Thing"] || !names["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"] || names["io.k8s.api.core.v1.Pod"] {
		t.Errorf("v3 %s\nv2 %v", v3, names)
	}
}

// A server that cannot be is refused at its start.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := &extension.Server{Group: "example.com", Version: "not-a-version"}
	extension.Add(s, extension.Kind[Thing]{Plural: "THINGS"})
	if _, err := s.Start(t.Context(), extension.Options{Host: &rest.Config{Host: "127.0.0.1:1"}, Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "THINGS") {
		t.Errorf("started: %v", err)
	}
	type recursive struct{ Thing chan int }
	if _, err := extension.SchemaOf[recursive](); err == nil {
		t.Error("a schema of a channel")
	}
}

// A kind without a Go type is served by its schema.
func TestSchemaAlone(t *testing.T) {
	t.Parallel()
	most := 3.0
	s := &extension.Server{Group: "example.com", Version: "v1"}
	extension.Add(s, extension.Kind[unstructured.Unstructured]{Name: "Thing", ClusterScoped: true, Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer", Maximum: &most}}}})
	all := dynamic.NewForConfigOrDie(run(t, s, extension.Options{Storage: extension.Memory()})).Resource(things)
	small, large := thing("small", nil), thing("large", nil)
	small.Object["size"], large.Object["size"] = int64(1), int64(4)
	made, err := all.Create(t.Context(), small, metav1.CreateOptions{FieldValidation: "Ignore"})
	must(t, err)
	if made.Object["size"] != int64(1) || made.Object["spec"] != nil {
		t.Errorf("created %v", made.Object)
	}
	if _, err := all.Create(t.Context(), large, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("created what is too large: %v", err)
	}
}

// Versions of a later process are greater, and watches from those of an earlier one are told to begin anew.
func TestVersionsOfEarlierProcess(t *testing.T) {
	t.Parallel()
	all := in(t, start(t, extension.Kind[Thing]{}, nil))
	w, err := all.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "7"})
	if err == nil {
		defer w.Stop()
		e := <-w.ResultChan()
		err = apierrors.FromObject(e.Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch from long ago: %v", err)
	}
}
