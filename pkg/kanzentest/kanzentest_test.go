package kanzentest_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

func client(t testing.TB, c *rest.Config) *kubernetes.Clientset {
	t.Helper()
	k, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// within polls until f is true: what controllers do takes its moment.
func within(t testing.TB, f func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !f(ctx) {
		select {
		case <-ctx.Done():
			t.Fatal("it did not come to be")
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func TestStart(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t, kanzentest.Listen())
	for name, cfg := range map[string]*rest.Config{"in process": s.Config(), "socket": s.SocketConfig()} {
		k := client(t, cfg)
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
		ns, err := k.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := k.CoreV1().ConfigMaps(ns.Name).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		within(t, func(ctx context.Context) bool {
			_, err := k.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
			return err == nil
		})
		if err := k.CoreV1().Namespaces().Delete(t.Context(), ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		within(t, func(ctx context.Context) bool {
			_, err := k.CoreV1().Namespaces().Get(ctx, ns.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
}

func TestTwoServersAreApart(t *testing.T) {
	t.Parallel()
	a, b := client(t, kanzentest.Start(t).Config()), client(t, kanzentest.Start(t).Config())
	if _, err := a.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "only-a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CoreV1().Namespaces().Get(t.Context(), "only-a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the other server has it: %v", err)
	}
}

func TestDataOutlivesServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Run("first", func(t *testing.T) {
		k := client(t, kanzentest.Start(t, kanzentest.DataDir(dir)).Config())
		if _, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("second", func(t *testing.T) {
		k := client(t, kanzentest.Start(t, kanzentest.DataDir(dir)).Config())
		if _, err := k.CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestUsersAreAuthorized(t *testing.T) {
	t.Parallel()
	s := kanzentest.Start(t)
	k := client(t, s.ConfigFor("alice", "system:authenticated"))
	if _, err := k.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list secrets: %v, want forbidden", err)
	}
}
