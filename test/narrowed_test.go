package test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientfeatures "k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/kanzen-io/kanzen/examples/narrowed"
)

var flaps = flag.Int("flaps", 200, "how often a right is taken and given in TestNarrowedInformers")

// TestNarrowedInformers has client-go's informers, of all kinds, follow what their user may see while a right comes and goes 1,000
// times and objects are written: after each time their caches are a fresh list. Others follow namespaces by name and by label.
func TestNarrowedInformers(t *testing.T) {
	k := serve(t, t.TempDir(), noRootCA)
	ctx, admin := t.Context(), k.client()
	for n, team := range []string{"red", "blue", "red"} {
		ns := namespace(fmt.Sprint("n", n))
		ns.Labels = map[string]string{"team": team}
		_, err := admin.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		must(t, err)
		for k := range 5 {
			_, err := admin.CoreV1().ConfigMaps(ns.Name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", k)}}, metav1.CreateOptions{})
			must(t, err)
		}
	}
	_, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}}}}, metav1.CreateOptions{})
	must(t, err)
	bind := func(ns string) {
		_, err := admin.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "ann"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ann"}}}, metav1.CreateOptions{})
		must(t, err)
	}
	bind("n0")
	visible, named, labelled := url.Values{"visible": {"true"}}, url.Values{"namespaces": {"n1,n2"}}, url.Values{"namespaceSelector": {"team=red"}}
	var followers []*narrowedInformer
	for _, watchList := range []bool{true, false} {
		featurestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, watchList)
		for _, kind := range []string{"typed", "dynamic", "metadata"} {
			followers = append(followers, followNarrowed(t, k, rest.ImpersonationConfig{UserName: "ann"}, kind, visible))
		}
		followers = append(followers, followNarrowed(t, k, rest.ImpersonationConfig{}, "typed", named), followNarrowed(t, k, rest.ImpersonationConfig{}, "typed", labelled))
	}
	sameAsLists(t, followers, "at first")
	for n := range *flaps {
		if n%2 == 0 {
			bind("n1")
		} else {
			must(t, admin.RbacV1().RoleBindings("n1").Delete(ctx, "ann", metav1.DeleteOptions{}))
		}
		ns := fmt.Sprint("n", n%3)
		_, err := admin.CoreV1().ConfigMaps(ns).Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", n%5)}, Data: map[string]string{"n": fmt.Sprint(n)}}, metav1.UpdateOptions{})
		must(t, err)
		if n%10 == 0 {
			other, err := admin.CoreV1().Namespaces().Get(ctx, "n1", metav1.GetOptions{})
			must(t, err)
			other.Labels["team"] = []string{"red", "blue"}[n/10%2]
			_, err = admin.CoreV1().Namespaces().Update(ctx, other, metav1.UpdateOptions{})
			must(t, err)
		}
		sameAsLists(t, followers, fmt.Sprint("change ", n))
	}
	listedOnce(t, followers)
}

// TestNarrowedInformersOfNode has informers of a node follow the configmaps of its pods, while pods are bound and deleted.
func TestNarrowedInformersOfNode(t *testing.T) {
	k := serve(t, t.TempDir(), noRootCA)
	ctx, admin := t.Context(), k.client()
	for n := range 3 {
		_, err := admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", n)}}, metav1.CreateOptions{})
		must(t, err)
	}
	within(t, time.Minute, "pods may be created", func(ctx context.Context) bool {
		_, err := admin.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	var followers []*narrowedInformer
	for _, kind := range []string{"typed", "dynamic", "metadata"} {
		followers = append(followers, followNarrowed(t, k, rest.ImpersonationConfig{UserName: "system:node:w", Groups: []string{"system:nodes"}}, kind, url.Values{"visible": {"true"}}))
	}
	pods := admin.CoreV1().Pods("default")
	for n := range *flaps {
		if n%2 == 0 {
			uses := corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprint("c", n%3)}}}
			_, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{uses}}}}}, metav1.CreateOptions{})
			must(t, err)
			must(t, pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "w"}}, metav1.CreateOptions{}))
		} else {
			must(t, pods.Delete(ctx, "p", *metav1.NewDeleteOptions(0)))
		}
		_, err := admin.CoreV1().ConfigMaps("default").Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", n%3)}, Data: map[string]string{"n": fmt.Sprint(n)}}, metav1.UpdateOptions{})
		must(t, err)
		within(t, time.Minute, "the node sees the configmaps of its pods", func(context.Context) bool {
			return len(followers[0].store.GetStore().ListKeys()) == 1-n%2
		})
		sameAsLists(t, followers, fmt.Sprint("change ", n))
	}
	listedOnce(t, followers)
}

// sameAsLists waits until the cache of each informer is a fresh list.
func sameAsLists(t *testing.T, followers []*narrowedInformer, what string) {
	t.Helper()
	for _, f := range followers {
		var diff string
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			if diff = f.differs(t.Context(), t); diff == "" {
				break
			}
			if time.Since(began) > 20*time.Second {
				t.Fatalf("%s: the %s cache with %v: %s", what, f.kind, f.query, diff)
			}
		}
	}
}

func listedOnce(t *testing.T, followers []*narrowedInformer) {
	t.Helper()
	for _, f := range followers {
		if f.lists() > 3 {
			t.Errorf("the %s informer with %v has listed %d times", f.kind, f.query, f.lists())
		}
	}
}

// narrowedInformer is an informer of configmaps whose reads have parameters.
type narrowedInformer struct {
	kind  string
	query url.Values
	fresh *kubernetes.Clientset
	store cache.SharedIndexInformer
	reads *countedReads
}

// followNarrowed starts an informer as a user; empty: the administrator.
func followNarrowed(t *testing.T, k *kanzen, who rest.ImpersonationConfig, kind string, query url.Values) *narrowedInformer {
	t.Helper()
	config := rest.CopyConfig(k.config())
	config.Impersonate = who
	config.QPS = -1
	reads := &countedReads{}
	config.Wrap(reads.count)
	config.Wrap(narrowed.Reads(query))
	f := &narrowedInformer{kind: kind, query: query, fresh: kubernetes.NewForConfigOrDie(config), reads: reads}
	switch kind {
	case "typed":
		f.store = informers.NewSharedInformerFactory(f.fresh, 0).Core().V1().ConfigMaps().Informer()
	case "dynamic":
		f.store = dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0).ForResource(configMaps).Informer()
	case "metadata":
		f.store = metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(config), 0).ForResource(configMaps).Informer()
	}
	go f.store.RunWithContext(t.Context())
	within(t, time.Minute, "informers begin", func(context.Context) bool { return f.store.HasSynced() })
	reads.lists.Store(0)
	return f
}

func (f *narrowedInformer) lists() int64 { return f.reads.lists.Load() }

// differs compares the cache with a fresh list.
func (f *narrowedInformer) differs(ctx context.Context, t *testing.T) string {
	t.Helper()
	list, err := f.fresh.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	must(t, err)
	f.reads.lists.Add(-1)
	want, got := map[string]string{}, map[string]string{}
	for _, m := range list.Items {
		want[m.Namespace+"/"+m.Name] = m.ResourceVersion
	}
	for _, o := range f.store.GetStore().List() {
		m, err := meta.Accessor(o)
		must(t, err)
		got[m.GetNamespace()+"/"+m.GetName()] = m.GetResourceVersion()
	}
	if maps.Equal(want, got) {
		return ""
	}
	return fmt.Sprintf("has %v, and a list has %v", got, want)
}

// countedReads counts the lists among requests, and the watches that begin with one.
type countedReads struct{ lists atomic.Int64 }

func (c *countedReads) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if q := r.URL.Query(); q.Get("watch") == "" || q.Get("sendInitialEvents") != "" {
			c.lists.Add(1)
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
