package kanzentest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

func put(t *testing.T, c kubernetes.Interface, name, value string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"is": value}}
	if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		_, err = c.CoreV1().ConfigMaps("default").Update(t.Context(), cm, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	} else if err != nil {
		t.Fatal(err)
	}
}

// is returns what each ConfigMap of a test holds.
func is(t *testing.T, c kubernetes.Interface) string {
	t.Helper()
	list, err := c.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{LabelSelector: "!kanzen"})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, cm := range list.Items {
		if cm.Data["is"] != "" {
			out[cm.Name] = cm.Data["is"]
		}
	}
	return fmt.Sprint(out)
}

func clientTo(c *rest.Config) kubernetes.Interface { return kubernetes.NewForConfigOrDie(c) }

// A fork begins with what the server holds, and nothing that is written to one is seen in the other.
func TestFork(t *testing.T) {
	s := kanzentest.Start(t)
	root := clientTo(s.Config())
	put(t, root, "a", "1")
	put(t, root, "b", "1")
	f := s.Fork(t)
	fork := clientTo(f.Config())
	watched, err := fork.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=b"})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	put(t, root, "a", "2")
	put(t, fork, "b", "3")
	put(t, fork, "c", "3")
	if err := fork.CoreV1().ConfigMaps("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	inner := clientTo(f.Fork(t).Config())
	put(t, inner, "b", "4")
	for _, c := range []struct {
		client kubernetes.Interface
		want   string
	}{{root, "map[a:2 b:1]"}, {fork, "map[b:3 c:3]"}, {inner, "map[b:4 c:3]"}} {
		if got := is(t, c.client); got != c.want {
			t.Errorf("it holds %s, want %s", got, c.want)
		}
	}
	for _, want := range []watch.EventType{watch.Added, watch.Modified} {
		select {
		case e := <-watched.ResultChan():
			if e.Type != want {
				t.Errorf("%s %v, want %s", e.Type, e.Object, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no %s", want)
		}
	}
}

// Controllers of a fork work on what is in it: a namespace that is deleted there goes away there.
func TestForkControllers(t *testing.T) {
	s := kanzentest.Start(t)
	root := clientTo(s.Config())
	if _, err := root.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fork := clientTo(s.Fork(t).Config())
	if err := fork.CoreV1().Namespaces().Delete(t.Context(), "team", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, err := fork.CoreV1().Namespaces().Get(ctx, "team", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := root.CoreV1().Namespaces().Get(t.Context(), "team", metav1.GetOptions{}); err != nil {
		t.Errorf("in the server: %v", err)
	}
}
