package cbor

import (
	"bytes"
	"context"
	"net/http"
	"path"
	"reflect"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
	"github.com/kanzen-io/kanzen/test/peer"
)

var (
	foos = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "foos"}
	maps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// preferCBOR has clients of the test send and ask for CBOR.
func preferCBOR(t *testing.T) {
	t.Helper()
	featurestesting.SetFeatureDuringTest(t, features.ClientsAllowCBOR, true)
	featurestesting.SetFeatureDuringTest(t, features.ClientsPreferCBOR, true)
}

// noted notes the media types of what clients send and get.
type noted struct {
	next http.RoundTripper
	t    *testing.T
}

func (n noted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{r.Header.Get("Content-Type"), resp.Header.Get("Content-Type")} {
		if kind != "" && !strings.Contains(kind, "cbor") {
			n.t.Errorf("%s %s: %s", r.Method, r.URL, kind)
		}
	}
	return resp, nil
}

// onlyCBOR fails the test when clients of the configuration do not speak CBOR.
func onlyCBOR(t *testing.T, c *rest.Config) *rest.Config {
	t.Helper()
	c = rest.CopyConfig(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return noted{next, t} })
	return c
}

func foo(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Foo", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"replicas": int64(2), "f": 1.5, "s": "t", "any": map[string]any{"n": nil, "list": []any{int64(1), "x", true}}},
	}}
}

// TestDynamicClient does by CBOR what the dynamic client can do.
func TestDynamicClient(t *testing.T) {
	preferCBOR(t)
	k := kanzentest.Start(t, kanzentest.Flags(gate), kanzentest.Install(kanzentest.YAML(definition)))
	client := dynamic.NewForConfigOrDie(onlyCBOR(t, k.Config())).Resource(foos).Namespace("default")
	ctx, stop := context.WithCancel(t.Context())

	informers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(onlyCBOR(t, k.Config())), 0, "default", nil)
	informer := informers.ForResource(foos).Informer()
	informers.Start(ctx.Done())
	defer informers.Shutdown()
	defer stop()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer has no list")
	}
	watched, err := client.Watch(ctx, metav1.ListOptions{})
	must(t, err)
	defer watched.Stop()

	made, err := client.Create(ctx, foo("a"), metav1.CreateOptions{})
	must(t, err)
	if !reflect.DeepEqual(made.Object["spec"], foo("a").Object["spec"]) {
		t.Errorf("made %v", made.Object["spec"])
	}
	must(t, unstructured.SetNestedField(made.Object, int64(3), "spec", "replicas"))
	changed, err := client.Update(ctx, made, metav1.UpdateOptions{})
	must(t, err)
	got, err := client.Get(ctx, "a", metav1.GetOptions{})
	must(t, err)
	if !reflect.DeepEqual(got, changed) {
		t.Errorf("got %v, changed %v", got, changed)
	}
	applied := foo("a")
	must(t, unstructured.SetNestedField(applied.Object, int64(4), "spec", "replicas"))
	got, err = client.Apply(ctx, "a", applied, metav1.ApplyOptions{FieldManager: "m", Force: true})
	must(t, err)
	list, err := client.List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 1 || !reflect.DeepEqual(list.Items[0].Object, got.Object) {
		t.Errorf("listed %v, applied %v", list.Items, got)
	}
	if _, err := client.Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	must(t, client.Delete(ctx, "a", metav1.DeleteOptions{}))
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Modified, watch.Deleted} {
		if e := <-watched.ResultChan(); e.Type != want || e.Object.(*unstructured.Unstructured).GetName() != "a" {
			t.Errorf("event %v, want %s", e, want)
		}
	}
	must(t, client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))

	partial, err := metadata.NewForConfigOrDie(k.Config()).Resource(maps).Namespace("default").List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(partial.Items) == 0 || partial.Items[0].Name == "" {
		t.Errorf("metadata: %v", partial.Items)
	}
}

// TestTypedClient does by CBOR what a client of Go types can do: binary data, quantities, times, bookmarks.
func TestTypedClient(t *testing.T) {
	preferCBOR(t)
	k := kanzentest.Start(t, kanzentest.Flags(gate))
	ctx, core := t.Context(), kubernetes.NewForConfigOrDie(onlyCBOR(t, k.Config())).CoreV1().RESTClient()
	secrets := gentype.NewClientWithListAndApply[*corev1.Secret, *corev1.SecretList, *applycorev1.SecretApplyConfiguration](
		"secrets", core, scheme.ParameterCodec, "default", func() *corev1.Secret { return &corev1.Secret{} }, func() *corev1.SecretList { return &corev1.SecretList{} })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"a": {0, 1, 0xff}, "empty": {}}, StringData: map[string]string{"b": "c"}}
	made, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	must(t, err)
	want := map[string][]byte{"a": {0, 1, 0xff}, "empty": {}, "b": []byte("c")}
	if !reflect.DeepEqual(made.Data, want) || time.Since(made.CreationTimestamp.Time) > time.Hour {
		t.Errorf("made %v", made)
	}
	applied, err := secrets.Apply(ctx, applycorev1.Secret("s", "default").WithData(map[string][]byte{"d": []byte("e")}), metav1.ApplyOptions{FieldManager: "m"})
	must(t, err)
	want["d"] = []byte("e")
	list, err := secrets.List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 1 || !reflect.DeepEqual(list.Items[0].Data, want) || !reflect.DeepEqual(&list.Items[0], applied) {
		t.Errorf("listed %v", list.Items)
	}
	yes := true
	w, err := secrets.Watch(ctx, metav1.ListOptions{AllowWatchBookmarks: true, SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	must(t, err)
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Added || !reflect.DeepEqual(e.Object.(*corev1.Secret).Data, want) {
		t.Errorf("event %v", e)
	}
	if e := <-w.ResultChan(); e.Type != watch.Bookmark || e.Object.(*corev1.Secret).Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		t.Errorf("event %v", e)
	}
	must(t, secrets.Delete(ctx, "s", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &applied.UID}}))
	if _, err := secrets.Get(ctx, "s", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// TestFallBack: a client that prefers CBOR goes on in JSON with a server that has none.
func TestFallBack(t *testing.T) {
	preferCBOR(t)
	k := kanzentest.Start(t)
	client := dynamic.NewForConfigOrDie(k.Config()).Resource(maps).Namespace("default")
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}}}
	if _, err := client.Create(t.Context(), object, metav1.CreateOptions{}); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("the first request: %v", err)
	}
	_, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	must(t, err)
	_, err = client.Get(t.Context(), "a", metav1.GetOptions{})
	must(t, err)
}

// TestStored: custom resources are stored as CBOR while the gate is on, everything else as ever, and what one of kanzen and kube-apiserver
// has stored, with the gate or without it, the other reads with the gate or without it.
func TestStored(t *testing.T) {
	etcd := peer.Etcd(t)
	db, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}})
	must(t, err)
	defer db.Close()
	ctx := t.Context()
	stored := func(resource, name string) []byte {
		t.Helper()
		r, err := db.Get(ctx, path.Join("/registry", resource, "default", name))
		must(t, err)
		if len(r.Kvs) != 1 {
			t.Fatalf("%d values of %s", len(r.Kvs), name)
		}
		return r.Kvs[0].Value
	}
	is := func(value []byte) bool { return bytes.HasPrefix(value, []byte{0xd9, 0xd9, 0xf7}) }
	began := map[string]func(flags ...string) *rest.Config{
		"peer": func(flags ...string) *rest.Config { return peer.StartOn(t, etcd, flags...) },
		"kanzen": func(flags ...string) *rest.Config {
			return kanzentest.Start(t, kanzentest.Etcd(etcd), kanzentest.Flags(append(flags, "--etcd-prefix=/registry")...)).Config()
		},
	}
	first := began["peer"]()
	newServer(t, first).define(t)
	var names []string
	for _, who := range []string{"kanzen", "peer"} {
		for n, flags := range [][]string{nil, {gate}, nil} {
			client := dynamic.NewForConfigOrDie(began[who](flags...)).Resource(foos).Namespace("default")
			for _, name := range names {
				got, err := client.Get(ctx, name, metav1.GetOptions{})
				if err != nil || !reflect.DeepEqual(got.Object["spec"], foo(name).Object["spec"]) {
					t.Errorf("%s with %q reads %s: %v, %v", who, flags, name, got, err)
				}
			}
			list, err := client.List(ctx, metav1.ListOptions{})
			if err != nil || len(list.Items) != len(names) {
				t.Errorf("%s with %q lists %d of %d: %v", who, flags, len(list.Items), len(names), err)
			}
			name := who + string(rune('0'+n))
			names = append(names, name)
			_, err = client.Create(ctx, foo(name), metav1.CreateOptions{})
			must(t, err)
			if value := stored("example.com/foos", name); is(value) != (flags != nil) {
				t.Errorf("%s with %q stores %q", who, flags, value)
			}
			// A write that changes nothing stores an object anew that was stored in the other form.
			_, err = client.Patch(ctx, names[0], types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
			must(t, err)
			if value := stored("example.com/foos", names[0]); is(value) != (flags != nil) {
				t.Errorf("%s with %q leaves %q", who, flags, value)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
