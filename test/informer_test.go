package test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientfeatures "k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	churnNamespace = "churn"
	writers        = 8
	objectsEach    = 125
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// TestInformersUnderChurn follows one namespace with every kind of client-go
// informer while several writers change some 1,000 objects, and the server is
// stopped in the middle of it and started again on the same data and port.
// Every informer must tell each change once, in order, and go on after the
// restart where it was, without a list.
func TestInformersUnderChurn(t *testing.T) {
	t.Run("stopped", func(t *testing.T) { testChurn(t, syscall.SIGTERM) })
	t.Run("killed", func(t *testing.T) { testChurn(t, syscall.SIGKILL) })
}

func testChurn(t *testing.T, signal syscall.Signal) {
	dir := t.TempDir()
	k := serve(t, dir, noRootCA)
	if _, err := k.client().CoreV1().Namespaces().Create(t.Context(), namespace(churnNamespace), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	reader := allowReading(t, k)
	var followers []*follower
	for _, watchList := range []bool{true, false} {
		featurestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, watchList)
		for _, kind := range []string{"typed", "dynamic", "metadata"} {
			followers = append(followers, follow(t, reader, kind, watchList))
		}
	}
	ws := make([]*writer, writers)
	var done atomic.Int64
	var wg sync.WaitGroup
	for n := range ws {
		ws[n] = &writer{
			client: k.client().CoreV1().ConfigMaps(churnNamespace), prefix: fmt.Sprintf("w%d-", n),
			rand: rand.New(rand.NewPCG(1, uint64(n))), done: &done, log: map[string]*history{},
		}
		wg.Go(func() { ws[n].run(t) })
	}
	within(t, time.Minute, "writers make progress", func(context.Context) bool { return done.Load() > writers*objectsEach })
	for _, f := range followers {
		// A client takes a watch without an event in its first second for a
		// broken one, and lists.
		within(t, time.Minute, f.name+" gets events", func(context.Context) bool { return f.count() > 0 })
		f.requests.fromNothing.Store(0)
	}
	begin := time.Now()
	k.end(signal)
	k = serve(t, dir, noRootCA, "--secure-port="+k.port())
	t.Logf("%v, and again ready after %v, %d changes done by then", signal, time.Since(begin), done.Load())
	wg.Wait()
	if t.Failed() {
		return
	}
	want, changes := map[string]*history{}, 0
	for _, w := range ws {
		maps.Copy(want, w.log)
	}
	for _, h := range want {
		changes += len(h.versions)
		if h.deleted {
			changes++
		}
	}
	t.Logf("%d objects, %d changes", len(want), changes)
	list, err := k.client().CoreV1().ConfigMaps(churnNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range followers {
		f.check(t, want, changes, list)
	}
	for _, f := range followers[1:] {
		f.compare(t, followers[0])
	}
	if t.Failed() {
		t.Logf("the server said: %s", k.stderr.String())
	}
}

// allowReading gives a role to a user who is nobody's administrator, and
// returns how that user reaches the server: by connections of their own, and
// subject to the authorizer, which must know the role when it starts again.
func allowReading(t *testing.T, k *kanzen) *rest.Config {
	t.Helper()
	const user = "reader"
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}},
	}
	if _, err := k.client().RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := k.client().RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := k.config()
	config.Impersonate.UserName = user
	config.Dial = (&net.Dialer{}).DialContext // keeps client-go from sharing the writers' connection
	return config
}

// history is what was done to one object.
type history struct {
	versions []uint64 // resourceVersions of its creation and updates
	deleted  bool
}

// writer creates, updates and deletes objects of its own, and remembers what
// the server acknowledged.
type writer struct {
	client corev1client.ConfigMapInterface
	prefix string
	rand   *rand.Rand
	done   *atomic.Int64
	log    map[string]*history
}

func (w *writer) run(t *testing.T) {
	var live []string
	for n := 0; n < objectsEach || len(live) > objectsEach/2; {
		switch name := ""; {
		case n < objectsEach && (len(live) == 0 || w.rand.IntN(4) == 0):
			name = w.prefix + strconv.Itoa(n)
			w.log[name] = &history{}
			w.write(t, name, "created")
			live = append(live, name)
			n++
		case w.rand.IntN(6) == 0:
			i := w.rand.IntN(len(live))
			name, live[i] = live[i], live[len(live)-1]
			live = live[:len(live)-1]
			w.delete(t, name)
		default:
			w.write(t, live[w.rand.IntN(len(live))], strconv.Itoa(w.rand.Int()))
		}
		if t.Failed() {
			return
		}
		w.done.Add(1)
	}
}

// write creates or updates until it is known to have happened. A request that
// was cut off may have: then the object tells.
func (w *writer) write(t *testing.T, name, value string) {
	h := w.log[name]
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
	do := w.client.Create
	if len(h.versions) > 0 {
		obj.ResourceVersion = strconv.FormatUint(h.versions[len(h.versions)-1], 10)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var got *corev1.ConfigMap
		var err error
		if len(h.versions) == 0 {
			got, err = do(t.Context(), obj, metav1.CreateOptions{})
		} else {
			got, err = w.client.Update(t.Context(), obj, metav1.UpdateOptions{})
		}
		if err != nil {
			got, err = w.client.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || got.Data["value"] != value {
				continue
			}
		}
		h.versions = append(h.versions, version(got))
		return
	}
	t.Errorf("%s could not be written", name)
}

func (w *writer) delete(t *testing.T, name string) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err := w.client.Delete(t.Context(), name, metav1.DeleteOptions{}); err == nil || apierrors.IsNotFound(err) {
			w.log[name].deleted = true
			return
		}
	}
	t.Errorf("%s could not be deleted", name)
}

func version(obj any) uint64 {
	m, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	v, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// event is what an informer told.
type event struct {
	kind     byte // A, U, D
	name     string
	old, rev uint64
}

func (e event) String() string { return fmt.Sprintf("%c %s %d", e.kind, e.name, e.rev) }

// follower is an informer and what it told.
type follower struct {
	name     string
	store    cache.Store
	requests *requests

	mu     sync.Mutex
	events []event // guarded by mu
}

func follow(t *testing.T, config *rest.Config, kind string, watchList bool) *follower {
	t.Helper()
	config = rest.CopyConfig(config)
	f := &follower{name: fmt.Sprintf("%s, WatchList %v", kind, watchList), requests: &requests{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { f.requests.next = next; return f.requests })
	informer := informerOf(t, config, kind)
	f.store = informer.GetStore()
	note := func(kind byte, old, obj any) {
		e := event{kind: kind}
		if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			e.kind, obj = '?', d.Obj // the deletion itself was missed
		}
		m, err := meta.Accessor(obj)
		if err != nil {
			panic(err)
		}
		e.name, e.rev = m.GetName(), version(obj)
		if old != nil {
			e.old = version(old)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.events = append(f.events, e)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { note('A', nil, obj) },
		UpdateFunc: func(old, obj any) { note('U', old, obj) },
		DeleteFunc: func(obj any) { note('D', nil, obj) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { informer.RunWithContext(t.Context()) })
	t.Cleanup(wg.Wait)
	within(t, 10*time.Second, f.name+" syncs", func(context.Context) bool { return informer.HasSynced() })
	if asked := f.requests.initial.Load() > 0; asked != watchList {
		t.Errorf("%s: asked for initial events: %v", f.name, asked)
	}
	return f
}

func informerOf(t *testing.T, config *rest.Config, kind string) cache.SharedIndexInformer {
	t.Helper()
	var informer cache.SharedIndexInformer
	switch kind {
	case "typed":
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		informer = informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(churnNamespace)).Core().V1().ConfigMaps().Informer()
	case "dynamic":
		c, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		informer = dynamicinformer.NewFilteredDynamicSharedInformerFactory(c, 0, churnNamespace, nil).ForResource(configMaps).Informer()
	case "metadata":
		c, err := metadata.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		informer = metadatainformer.NewFilteredSharedInformerFactory(c, 0, churnNamespace, nil).ForResource(configMaps).Informer()
	}
	return informer
}

// check holds what the informer told against what was done and what is there.
func (f *follower) check(t *testing.T, want map[string]*history, changes int, list *corev1.ConfigMapList) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); f.count() < changes && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Logf("%s: %d events; lists or watches from nothing after the last restart: %d", f.name, len(f.events), f.requests.fromNothing.Load())
	if len(f.events) != changes {
		t.Errorf("%s: %d events, want %d", f.name, len(f.events), changes)
	}
	if n := f.requests.fromNothing.Load(); n != 0 {
		t.Errorf("%s: %d lists or watches from nothing after the last restart: %v", f.name, n, f.requests.seen())
	}
	if !slices.IsSortedFunc(f.events, func(a, b event) int { return cmp.Compare(a.rev, b.rev) }) {
		t.Errorf("%s: events out of order", f.name)
	}
	told := map[string][]event{}
	for _, e := range f.events {
		told[e.name] = append(told[e.name], e)
	}
	bad := 0
	for name, h := range want {
		if err := h.told(told[name]); err != nil {
			if bad++; bad <= 5 {
				t.Errorf("%s: %s: %v", f.name, name, err)
			}
		}
	}
	if bad > 5 {
		t.Errorf("%s: %d objects more of this kind", f.name, bad-5)
	}
	there := map[string]uint64{}
	for n := range list.Items {
		there[list.Items[n].Name] = version(&list.Items[n])
	}
	kept := map[string]uint64{}
	for _, obj := range f.store.List() {
		m, err := meta.Accessor(obj)
		if err != nil {
			t.Fatal(err)
		}
		kept[m.GetName()] = version(obj)
	}
	if !maps.Equal(there, kept) {
		t.Errorf("%s: the informer's store (%d objects) is not what a list gives (%d)", f.name, len(kept), len(there))
	}
}

// told says how an object's events differ from its history.
func (h *history) told(events []event) error {
	if n := len(h.versions); h.deleted && n > 0 {
		if len(events) == 0 || events[len(events)-1].kind != 'D' || events[len(events)-1].rev <= h.versions[n-1] {
			return fmt.Errorf("the last event is not the deletion: %v", events)
		}
		events = events[:len(events)-1]
	}
	if len(events) != len(h.versions) {
		return fmt.Errorf("events %v, want revisions %v", events, h.versions)
	}
	for n, e := range events {
		if e.rev != h.versions[n] || (e.kind == 'A') != (n == 0) || n > 0 && (e.kind != 'U' || e.old != h.versions[n-1]) {
			return fmt.Errorf("events %v, want revisions %v", events, h.versions)
		}
	}
	return nil
}

// compare holds two informers against each other: the revisions of deletions
// are known from nowhere else.
func (f *follower) compare(t *testing.T, other *follower) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	other.mu.Lock()
	defer other.mu.Unlock()
	if !slices.Equal(f.events, other.events) {
		t.Errorf("%s and %s tell different stories", f.name, other.name)
	}
}

func (f *follower) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.events)
}

// requests counts what an informer asks.
type requests struct {
	next http.RoundTripper
	// initial counts watches with sendInitialEvents; fromNothing these, lists,
	// and watches that do not say from where.
	initial, fromNothing atomic.Int64

	mu   sync.Mutex
	list []string // guarded by mu
}

// RoundTrip is part of http.RoundTripper.
func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	watch, initial := q.Get("watch") != "", q.Get("sendInitialEvents") == "true"
	if initial {
		r.initial.Add(1)
	}
	if !watch || initial || q.Get("resourceVersion") == "" || q.Get("resourceVersion") == "0" {
		r.fromNothing.Add(1)
	}
	resp, err := r.next.RoundTrip(req)
	what := "error " + fmt.Sprint(err)
	if err == nil {
		what = resp.Status
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, req.URL.RawQuery+" -> "+what)
	return resp, err
}

func (r *requests) seen() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.list, "\n")
}
