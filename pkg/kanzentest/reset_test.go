package kanzentest_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// follow starts an informer of ConfigMaps and returns its store.
func follow(t *testing.T, k *kubernetes.Clientset) cache.Store {
	t.Helper()
	store, c := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(k.CoreV1().RESTClient(), "configmaps", "default", fields.Everything()),
		ObjectType:    &corev1.ConfigMap{}, Handler: cache.ResourceEventHandlerFuncs{},
	})
	go c.Run(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), c.HasSynced) {
		t.Fatal("no sync")
	}
	return store
}

// TestReset goes back to the beginning, with an informer on: after each reset it has what the server has.
func TestReset(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Install(kanzentest.Objects(configMap("installed"))))
	k := client(t, s.Config())
	names := func() []string {
		all, err := k.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range all.Items {
			out = append(out, c.Name)
		}
		return out
	}
	first := names()
	store := follow(t, k)
	for range 5 {
		mustCreate(t, k, "a")
		mustCreate(t, k, "b")
		if err := k.CoreV1().ConfigMaps("default").Delete(t.Context(), "installed", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Install(t.Context(), kanzentest.Path("testdata/crds")); err != nil {
			t.Fatal(err)
		}
		u := s.User(t, "alice", "view")
		if _, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		within(t, func(context.Context) bool { _, ok, _ := store.GetByKey("default/b"); return ok })
		if err := s.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := names(); strings.Join(got, " ") != strings.Join(first, " ") {
			t.Errorf("after the reset: %v, at first %v", got, first)
		}
		if _, err := k.CoreV1().Namespaces().Get(t.Context(), "n", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace: %v", err)
		}
		if _, err := client(t, u.Config()).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("alice: %v", err)
		}
		if _, err := dynamic.NewForConfigOrDie(s.Config()).Resource(widgets).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the CRD: %v", err)
		}
		within(t, func(context.Context) bool {
			_, a, _ := store.GetByKey("default/a")
			_, installed, _ := store.GetByKey("default/installed")
			return !a && installed && len(store.ListKeys()) == len(first)
		})
	}
	// The history from before a reset is gone.
	_, err := k.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("a list of the past: %v", err)
	}
	if err := kanzentest.Start(t, kanzentest.Etcd()).Reset(t.Context()); err == nil {
		t.Error("Reset of an etcd")
	}
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	k := client(t, s.Config())
	var of []string
	for range 2 {
		t.Run("A Sub/Test with ünusual characters and a name that is longer than most", func(t *testing.T) {
			ns := s.Namespace(t)
			of = append(of, ns)
			if _, err := k.CoreV1().ConfigMaps(ns).Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	if of[0] == of[1] || !strings.HasPrefix(of[0], "testnamespace-a-sub-test-with") {
		t.Errorf("%q", of)
	}
	for _, ns := range of {
		within(t, func(ctx context.Context) bool {
			_, err := k.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
}
