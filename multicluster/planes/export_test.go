package planes_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kanzen-io/kanzen/multicluster/internal/testserver"
	"github.com/kanzen-io/kanzen/multicluster/planes"
)

func newExport(t *testing.T, config *rest.Config) *planes.Export {
	t.Helper()
	p, err := planes.NewExport(config, "widgets", planes.ExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// painter writes the plane and the color of each widget into its status.
type painter struct {
	manager mcmanager.Manager
	done    atomic.Int64
}

func (r *painter) setUp(m mcmanager.Manager) error {
	r.manager = m
	skip := true
	return mcbuilder.ControllerManagedBy(m).Named("painter").For(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}).
		WithOptions(controller.TypedOptions[mcreconcile.Request]{SkipNameValidation: &skip}).Complete(r)
}

func (r *painter) Reconcile(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
	cl, err := r.manager.GetCluster(ctx, request.ClusterName)
	if err != nil {
		return ctrl.Result{}, err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	if err := cl.GetClient().Get(ctx, request.NamespacedName, o); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	color, _, _ := unstructured.NestedString(o.Object, "spec", "color")
	want := request.ClusterName.String() + " " + color
	if seen, _, _ := unstructured.NestedString(o.Object, "status", "seen"); seen == want {
		return ctrl.Result{}, nil
	}
	_ = unstructured.SetNestedField(o.Object, want, "status", "seen")
	r.done.Add(1)
	return ctrl.Result{}, client.IgnoreNotFound(cl.GetClient().Status().Update(ctx, o))
}

// painted waits until a widget was reconciled.
func painted(t *testing.T, c client.Client, name, want string) *unstructured.Unstructured {
	t.Helper()
	o := widget(t, name, "")
	testserver.Await(t, name+" has not become "+want, func(ctx context.Context) bool {
		if c.Get(ctx, client.ObjectKeyFromObject(o), o) != nil {
			return false
		}
		seen, _, _ := unstructured.NestedString(o.Object, "status", "seen")
		return seen == want
	})
	return o
}

// One controller reconciles the objects of all planes that have bound an export, whatever becomes of these and of the server.
func TestExport(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t)
	config := vendor(t, s)
	alice, bob := consumer(t, s, "alice"), consumer(t, s, "bob")
	for _, c := range []client.Client{alice, bob} {
		create(t, c, widget(t, "w", "red"))
	}
	p, r := newExport(t, config), &painter{}
	managed(t, config, p, r.setUp)
	painted(t, alice, "w", "alice red")
	if o := painted(t, bob, "w", "bob red"); o.GetAnnotations()[planes.Annotation] != "" {
		t.Errorf("the plane has the annotation of the view: %v", o.GetAnnotations())
	}
	// One that comes later.
	carol := consumer(t, s, "carol")
	engagedCluster(t, p, "carol")
	create(t, carol, widget(t, "w", "blue"))
	painted(t, carol, "w", "carol blue")
	// One that is deleted while its objects are reconciled.
	for n := range 50 {
		create(t, carol, widget(t, fmt.Sprint("many", n), "blue"))
	}
	s.DeletePlane("carol")
	gone(t, p, "carol")
	// One that unbinds, and binds again.
	o := testserver.Object(t, binding)
	if err := bob.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	gone(t, p, "bob")
	testserver.Await(t, "the binding is not gone", func(ctx context.Context) bool {
		return apierrors.IsNotFound(bob.Get(ctx, client.ObjectKeyFromObject(o), o))
	})
	testserver.Bind(t, bob, binding)
	create(t, bob, widget(t, "w", "green"))
	painted(t, bob, "w", "bob green")
	// The server stops and comes again; a plane binds before the provider knows.
	s.Stop()
	s.Start()
	create(t, alice, widget(t, "after", "red"))
	painted(t, alice, "after", "alice red")
	carol = consumer(t, s, "carol")
	create(t, carol, widget(t, "w", "white"))
	painted(t, carol, "w", "carol white")
	if got := p.ClusterNames(); !slices.Equal(got, []multicluster.ClusterName{"alice", "bob", "carol"}) {
		t.Errorf("%v", got)
	}
}

// A provider engages planes that have no objects, each binding once, and leaves those alone that it cannot reach.
func TestExportEngages(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t)
	config := vendor(t, s)
	consumer(t, s, "alice")
	p, e := newExport(t, config), &engagements{}
	stop := running(t, p, e)
	e.becomes(t, "alice", 1, true)
	consumer(t, s, "bob")
	e.becomes(t, "bob", 1, true)
	s.DeletePlane("bob")
	e.becomes(t, "bob", 1, false)
	consumer(t, s, "bob")
	e.becomes(t, "bob", 2, true)
	// Another plane of the same name, which comes while nobody can say so.
	s.Stop()
	s.Start()
	consumer(t, s, "carol")
	e.becomes(t, "carol", 1, true)
	e.becomes(t, "alice", 1, true)
	e.becomes(t, "bob", 2, true)
	// Without the export there is nothing; with a new one of that name nothing is bound.
	v := testserver.Client(t, config)
	if err := v.Delete(t.Context(), testserver.Object(t, export)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alice", "bob", "carol"} {
		gone(t, p, name)
	}
	stop()
	if err := p.Start(t.Context(), e); err == nil {
		t.Error("a provider can be started twice")
	}
	if _, err := planes.NewExport(config, "a/b", planes.ExportOptions{}); err == nil {
		t.Error("an export can be called a/b")
	}
	narrowed := func(o *cluster.Options) { o.Cache.DefaultNamespaces = map[string]cache.Config{"a": {}} }
	if _, err := planes.NewExport(config, "a", planes.ExportOptions{ClusterOptions: []cluster.Option{narrowed}}); err == nil || !strings.Contains(err.Error(), "namespaces") {
		t.Errorf("namespaces of a cache: %v", err)
	}
}

// The cluster of a plane reads, selects, watches and writes what is in that plane, and no plane is woken by being read.
func TestExportClusters(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, "--planes-idle=2s")
	config := vendor(t, s)
	for n, name := range []string{"alice", "bob"} {
		c := consumer(t, s, name)
		create(t, c, widget(t, "w", "red"))
		for m := range n + 1 {
			create(t, c, widget(t, fmt.Sprint("v", m), "blue"))
		}
		create(t, c, &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}, Data: map[string]string{"of": name}})
	}
	p := newExport(t, config)
	byColor := func(o client.Object) []string {
		color, _, _ := unstructured.NestedString(o.(*unstructured.Unstructured).Object, "spec", "color")
		return []string{color}
	}
	for range 2 { // a second time it is there
		if err := p.IndexField(t.Context(), widget(t, "w", ""), "spec.color", byColor); err != nil {
			t.Fatal(err)
		}
	}
	running(t, p, &engagements{})
	a, b := engagedCluster(t, p, "alice"), engagedCluster(t, p, "bob")
	reads(t, a, 2, 1)
	reads(t, b, 3, 2)
	for _, cl := range []cluster.Cluster{a, b} { // typed, by the client
		m := &corev1.ConfigMap{}
		if err := cl.GetClient().Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "m"}, m); err != nil || len(m.Annotations) > 0 {
			t.Errorf("%v %v", m, err)
		}
	}
	asleep := func(ctx context.Context) bool {
		for _, name := range []string{"alice", "bob"} {
			o := testserver.Object(t, fmt.Sprintf("{apiVersion: planes.kanzen.io/v1, kind: Plane, metadata: {name: %s}}", name))
			if err := testserver.Client(t, s.Root).Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
				t.Fatal(err)
			}
			if state, _, _ := unstructured.NestedString(o.Object, "status", "state"); state != "Asleep" {
				return false
			}
		}
		return true
	}
	testserver.Await(t, "planes that are only read do not go to sleep", asleep)
	reads(t, a, 2, 1)
	if !asleep(t.Context()) {
		t.Error("a read has woken a plane")
	}
	writes(t, a)
	events(t, a, b)
}

// reads compares what the cache of a plane has.
func reads(t *testing.T, cl cluster.Cluster, all, blue int) {
	t.Helper()
	c, ctx := cl.GetCache(), t.Context()
	for what, q := range map[string]struct {
		want    int
		options []client.ListOption
	}{
		"all": {all, nil}, "a namespace": {all, []client.ListOption{client.InNamespace("default")}}, "another": {0, []client.ListOption{client.InNamespace("other")}},
		"blue ones": {blue, []client.ListOption{client.MatchingFields{"spec.color": "blue"}}}, "some": {1, []client.ListOption{client.Limit(1)}},
		"blue ones of a namespace": {blue, []client.ListOption{client.InNamespace("default"), client.MatchingFields{"spec.color": "blue"}}},
		"labelled ones":            {0, []client.ListOption{client.MatchingLabels{"a": "b"}}},
	} {
		l := widgetList()
		if err := c.List(ctx, l, q.options...); err != nil || len(l.Items) != q.want {
			t.Errorf("%s: %d, want %d: %v", what, len(l.Items), q.want, err)
		}
	}
	l := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "WidgetList"}}
	if err := c.List(ctx, l); err != nil || len(l.Items) != all {
		t.Errorf("metadata: %d, want %d: %v", len(l.Items), all, err)
	}
	o := widget(t, "w", "")
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || len(o.GetAnnotations()) > 0 {
		t.Errorf("%v %v", o.GetAnnotations(), err)
	}
	o.SetLabels(map[string]string{"changed": "yes"}) // a copy
	again := widget(t, "w", "")
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), again); err != nil || len(again.GetLabels()) > 0 {
		t.Errorf("%v %v", again.GetLabels(), err)
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "none"}, o); !apierrors.IsNotFound(err) {
		t.Errorf("one that is not there: %v", err)
	}
	if err := c.List(ctx, widgetList(), client.MatchingFields{"spec.size": "1"}); err == nil {
		t.Error("a field without an index is found")
	}
}

// writes writes in one plane.
func writes(t *testing.T, cl cluster.Cluster) {
	t.Helper()
	c, ctx := cl.GetClient(), t.Context()
	o := widget(t, "w", "")
	if err := cl.GetCache().Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	_ = unstructured.SetNestedField(o.Object, "yellow", "spec", "color")
	if err := c.Update(ctx, o); err != nil {
		t.Errorf("an update with what the cache has: %v", err)
	}
	if err := c.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))); err != nil {
		t.Error(err)
	}
	if err := cl.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || o.GetLabels()["a"] != "b" || len(o.GetAnnotations()) > 0 {
		t.Errorf("%v %v", o, err)
	}
	if err := c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}); !meta.IsNoMatchError(err) {
		t.Errorf("a secret, which is not claimed, can be made: %v", err)
	}
	testserver.Await(t, "the cache does not see a write", func(ctx context.Context) bool {
		return cl.GetCache().Get(ctx, client.ObjectKeyFromObject(o), o) == nil && o.GetLabels()["a"] == "b"
	})
}

// events has a plane's informer tell of what happens in that plane alone, and a plane's recorder write there.
func events(t *testing.T, a, b cluster.Cluster) {
	t.Helper()
	told := make(chan string, 100)
	informer, err := a.GetCache().GetInformer(t.Context(), widget(t, "w", ""))
	if err != nil {
		t.Fatal(err)
	}
	tell := func(what string) func(any) {
		return func(o any) { told <- what + " " + o.(client.Object).GetName() }
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: tell("add"), UpdateFunc: func(_, now any) { tell("update")(now) }, DeleteFunc: tell("delete")})
	if err != nil {
		t.Fatal(err)
	}
	next := func() string {
		t.Helper()
		select {
		case what := <-told:
			return what
		case <-t.Context().Done():
			return ""
		}
	}
	got := []string{next(), next()}
	slices.Sort(got)
	if !slices.Equal(got, []string{"add v0", "add w"}) {
		t.Errorf("%q", got)
	}
	testserver.Await(t, "the handler is not synced", func(context.Context) bool { return handle.HasSynced() })
	create(t, b.GetClient(), widget(t, "elsewhere", "red"))
	o := widget(t, "x", "red")
	create(t, a.GetClient(), o)
	if got := next(); got != "add x" {
		t.Errorf("%q", got)
	}
	if err := a.GetClient().Delete(t.Context(), o); err != nil {
		t.Error(err)
	}
	if got := next(); got != "delete x" {
		t.Errorf("%q", got)
	}
	if err := informer.RemoveEventHandler(handle); err != nil {
		t.Error(err)
	}
	a.GetEventRecorder("painter").Eventf(widget(t, "w", ""), nil, "Normal", "Painted", "Paint", "it is red")
	//lint:ignore SA1019 controllers use it as long as it is there
	a.GetEventRecorderFor("painter").Event(widget(t, "w", ""), "Normal", "Dried", "it is dry")
}

// Nothing runs any more for planes that are not engaged, nor for a provider that has stopped.
func TestExportLeavesNothing(t *testing.T) {
	s := testserver.Start(t)
	config := vendor(t, s)
	for n := range 5 {
		c := consumer(t, s, fmt.Sprint("c", n))
		create(t, c, widget(t, "w", "red"))
	}
	before := goroutines()
	few := func(t *testing.T, than int) {
		t.Helper()
		for end := time.Now().Add(15 * time.Second); goroutines() > than; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				all := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, want %d:\n%s", goroutines(), than, all[:runtime.Stack(all, true)])
			}
		}
	}
	p, e := newExport(t, config), &watching{}
	stop := running(t, p, e)
	for n := range 5 {
		engagedCluster(t, p, fmt.Sprint("c", n))
	}
	testserver.Await(t, "handlers are not told", func(context.Context) bool { return e.told.Load() >= 5 })
	with := goroutines()
	for n := 1; n < 5; n++ {
		s.DeletePlane(fmt.Sprint("c", n))
		gone(t, p, fmt.Sprint("c", n))
	}
	few(t, with-4)
	stop()
	few(t, before)
	if _, err := p.Get(t.Context(), "c0"); !errors.Is(err, multicluster.ErrClusterNotFound) {
		t.Error(err)
	}
}

// goroutines counts those that are none of a connection, which transports keep.
func goroutines() (n int) {
	all := make([]byte, 1<<22)
	for one := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if !strings.Contains(one, "http2.(*Transport).newClientConn") && !strings.Contains(one, "http.(*Transport).") {
			n++
		}
	}
	return n
}

// watching adds a handler to each plane, and takes it away again.
type watching struct{ told atomic.Int64 }

// Engage is part of multicluster.Aware.
func (w *watching) Engage(ctx context.Context, _ multicluster.ClusterName, cl cluster.Cluster) error {
	informer, err := cl.GetCache().GetInformer(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}})
	if err != nil {
		return err
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { w.told.Add(1) }})
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(handle) })
	return err
}
