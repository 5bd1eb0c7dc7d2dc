package planes

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
)

// inform runs client-go's informer on all widgets that the provider sees. Objects of different planes may have the same name, so that
// their keys must have the plane.
func (g *ground) inform(t testing.TB) cache.SharedIndexInformer {
	t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "https://root/exports/widgets", Transport: g.Transport("provider", controlplane.Itself()), QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	of := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
	apart := func(o *unstructured.Unstructured) {
		o.SetNamespace(o.GetAnnotations()[exports.PlaneAnnotation] + "/" + o.GetNamespace())
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := of.List(ctx, options)
			if err == nil {
				for n := range list.Items {
					apart(&list.Items[n])
				}
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := of.Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
				if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Bookmark && e.Type != watch.Error {
					apart(o)
				}
				return e, true
			}), nil
		},
	}
	informer := cache.NewSharedIndexInformer(lw, &unstructured.Unstructured{}, 0, cache.Indexers{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); informer.RunWithContext(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return informer
}

// held returns the resourceVersions of what an informer has.
func held(informer cache.SharedIndexInformer) map[string]string {
	out := map[string]string{}
	for _, key := range informer.GetStore().ListKeys() {
		if o, ok, _ := informer.GetStore().GetByKey(key); ok {
			out[key] = o.(*unstructured.Unstructured).GetResourceVersion()
		}
	}
	return out
}

// exportLife is a fleet in which planes bind an export, use it and go, at random, and what is to be seen of that.
type exportLife struct {
	*ground
	r       *rand.Rand
	there   map[string]bool // the planes
	allowed map[string]bool // those that may bind
	schema  int
}

// TestExportLife compares, after random changes of everything, what an informer of the provider has with what is in the planes.
func TestExportLife(t *testing.T) {
	steps := 150
	if testing.Short() {
		steps = 60
	}
	inEachLog(t, nil, func(t *testing.T, g *ground) { testExportLife(t, g, steps) })
}

func testExportLife(t *testing.T, g *ground, steps int) {
	seed := randomSeed()
	t.Logf("seed %d", seed)
	g.have(t, "provider")
	l := &exportLife{ground: g, r: rand.New(rand.NewPCG(seed, 3)), there: map[string]bool{}, allowed: map[string]bool{}}
	g.export(t, `{"planes":[]}`)
	informer := g.inform(t)
	for n := range steps {
		l.step(t)
		if n%20 == 19 {
			l.compare(t, informer)
		}
	}
}

var consumers = []string{"c0", "c1", "c2"}

// step does one thing. What a plane refuses, as it has no such kind or no such object, is no fault.
func (l *exportLife) step(t *testing.T) {
	name := consumers[l.r.IntN(len(consumers))]
	if !l.there[name] {
		l.have(t, name)
		l.there[name] = true
		return
	}
	object := fmt.Sprintf("w%d", l.r.IntN(4))
	switch what := l.r.IntN(20); {
	case what < 6:
		l.ask(t, name, name, "POST", widgetsPath, widget(object, l.r.IntN(100)))
	case what < 8:
		l.ask(t, name, name, "PATCH", widgetsPath+"/"+object+"?fieldManager=t&force=true", widget(object, l.r.IntN(100)))
	case what < 10:
		l.ask(t, name, name, "DELETE", widgetsPath+"/"+object, "")
	case what < 14:
		l.ask(t, name, name, "POST", bindingsPath, `{"apiVersion":"planes.kanzen.io/v1","kind":"Binding","metadata":{"name":"widgets"},"spec":{"export":{"plane":"provider","name":"widgets"}}}`)
		if l.r.IntN(2) == 0 && l.allowed[name] {
			l.bound(t, name)
		}
	case what < 15:
		l.ask(t, name, name, "DELETE", bindingsPath+"/widgets", "")
	case what < 17:
		l.allowed[name] = l.r.IntN(4) > 0
		l.allow(t)
	case what < 18:
		l.schema++
		l.must(t, "provider", "PATCH", definitionsPath+"/widgets.example.com?fieldManager=t&force=true", widgets(fmt.Sprintf(`,"description":"%d","maxProperties":%d`, l.schema, l.r.IntN(2))), nil)
	case what < 19:
		if err := l.find(name).sleep(); err != nil {
			t.Fatal(err)
		}
	default:
		if err := l.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		delete(l.certs, name)
		l.there[name] = false
	}
}

// allow sets which planes may bind.
func (l *exportLife) allow(t *testing.T) {
	var names []string
	for _, name := range consumers {
		if l.allowed[name] {
			names = append(names, fmt.Sprintf("%q", name))
		}
	}
	l.must(t, "provider", "PATCH", exportsPath+"/widgets?fieldManager=t&force=true", `{"apiVersion":"planes.kanzen.io/v1","kind":"Export","metadata":{"name":"widgets"},
		"spec":{"resources":[{"group":"example.com","resource":"widgets"}],"consumers":{"planes":[`+strings.Join(names, ",")+`]}}}`, nil)
}

// bound waits until the binding of a plane is what it is to become, and reports whether it is in force.
func (l *exportLife) bound(t *testing.T, name string) (is bool) {
	t.Helper()
	eventually(t, "the binding of "+name+" comes to no end", func() bool {
		var b exports.Binding
		code, answer := l.ask(t, name, name, "GET", bindingsPath+"/widgets", "")
		if code == http.StatusNotFound {
			is = false
			return true
		}
		if err := json.Unmarshal([]byte(answer), &b); err != nil {
			t.Fatal(err)
		}
		is = meta.IsStatusConditionTrue(b.Status.Conditions, exports.Bound)
		return b.DeletionTimestamp == nil && is == l.allowed[name]
	})
	return is
}

// compare waits until nothing changes any more, and then until the informer has what is in the planes.
func (l *exportLife) compare(t *testing.T, informer cache.SharedIndexInformer) {
	t.Helper()
	want := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(l.there)) {
		if !l.there[name] || !l.bound(t, name) {
			continue
		}
		var list struct{ Items []seen }
		l.must(t, name, "GET", "/apis/example.com/v1/widgets", "", &list)
		for _, o := range list.Items {
			want[name+"/"+o.Metadata.Namespace+"/"+o.Metadata.Name] = o.Metadata.ResourceVersion
		}
	}
	for end := time.Now().Add(time.Minute); !maps.Equal(held(informer), want); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the informer has %v, and the planes %v", held(informer), want)
		}
	}
	listed := map[string]string{}
	for key, o := range l.lists(t, allWidgets) {
		listed[key] = o.Metadata.ResourceVersion
	}
	if !maps.Equal(listed, want) {
		t.Errorf("the list has %v, and the planes %v", listed, want)
	}
}

// templateBinds makes a template "user", whose planes bind widgets.
func (g *ground) templateBinds(t *testing.T) {
	t.Helper()
	binding := map[string]any{"apiVersion": "planes.kanzen.io/v1", "kind": "Binding", "metadata": map[string]any{"name": "widgets"},
		"spec": map[string]any{"export": map[string]any{"plane": "provider", "name": "widgets"}}}
	template := map[string]any{"apiVersion": Group + "/" + Version, "kind": "PlaneTemplate", "metadata": map[string]any{"name": "user"}, "spec": map[string]any{"objects": []any{binding}}}
	if err := g.root.Do(t.Context(), http.MethodPost, strings.TrimSuffix(templatesPath, "/"), "application/json", template, nil); err != nil {
		t.Fatal(err)
	}
}

// A binding can come from a template, which lies in the log of the root, wherever the plane does.
func TestExportTemplate(t *testing.T) {
	inEachLog(t, nil, func(t *testing.T, g *ground) {
		g.have(t, "provider")
		g.export(t, `{"all":true}`)
		g.templateBinds(t)
		g.create(t, "alice", PlaneSpec{Template: "user", StorageClass: g.class})
		g.becomes(t, "alice", exports.Bound, metav1.ConditionTrue)
		g.must(t, "alice", "POST", widgetsPath, widget("w", 1), nil)
		if got := g.lists(t, allWidgets); len(got) != 1 {
			t.Errorf("%+v", got)
		}
	})
}

var (
	exportPlanes  = flag.Int("export-planes", 200, "how many planes bind the export of TestExportCost")
	exportObjects = flag.Int("export-objects", 10, "how many objects each of them has")
)

// TestExportCost has many planes bind an export by their template, and one informer see their objects, while all of them sleep.
func TestExportCost(t *testing.T) {
	many, each := *exportPlanes, *exportObjects
	if testing.Short() {
		many = 40
	}
	g := start(t, settings(t.TempDir()))
	g.create(t, "provider", PlaneSpec{})
	g.export(t, `{"all":true}`)
	g.templateBinds(t)
	for n := range many {
		name := fmt.Sprintf("u%d", n)
		g.create(t, name, PlaneSpec{Template: "user"})
		g.becomes(t, name, exports.Bound, metav1.ConditionTrue)
		for m := range each {
			g.must(t, name, "POST", widgetsPath, widget(fmt.Sprintf("w%d", m), m), nil)
		}
		eventually(t, name+" does not sleep", func() bool { return g.find(name).sleep() == nil && !g.find(name).awake() })
	}
	// Those that went to sleep with work left are to wake by themselves, at a time of their own.
	quiet := map[string]bool{}
	for n := range many {
		name := fmt.Sprintf("u%d", n)
		quiet[name] = !g.find(name).awake() && g.find(name).wakesAt() == nil
	}
	sleeping := func() (out []string) {
		for name, is := range quiet {
			if is && !g.find(name).awake() {
				out = append(out, name)
			}
		}
		return out
	}
	all := len(sleeping())
	if all < many*3/4 {
		t.Fatalf("of %d planes only %d sleep", many, all)
	}
	began := time.Now()
	informer := g.inform(t)
	eventually(t, "the informer does not have all", func() bool { return informer.HasSynced() && len(informer.GetStore().ListKeys()) == many*each })
	t.Logf("%d objects of %d planes in %v", many*each, many, time.Since(began))
	if still := len(sleeping()); still != all {
		t.Errorf("the informer has woken %d planes", all-still)
	}
	// A change is there at once, and wakes one plane.
	took := time.Duration(0)
	for n := range 10 {
		name := fmt.Sprintf("u%d", n)
		g.must(t, name, "GET", widgetsPath+"/w0", "", nil)
		g.must(t, name, "PATCH", widgetsPath+"/w0?fieldManager=t&force=true", widget("w0", 999), nil)
		began := time.Now()
		g.must(t, name, "PATCH", widgetsPath+"/w0?fieldManager=t&force=true", widget("w0", 1000), nil)
		eventually(t, "a change is not seen", func() bool {
			o, ok, _ := informer.GetStore().GetByKey(name + "/default/w0")
			size, _, _ := unstructured.NestedInt64(o.(*unstructured.Unstructured).Object, "spec", "size")
			return ok && size == 1000
		})
		took = max(took, time.Since(began))
	}
	t.Logf("a change is there after %v at most", took)
	if still := len(sleeping()); still < all-10 {
		t.Errorf("%d planes are awake, for a change of 10", all-still)
	}
}
