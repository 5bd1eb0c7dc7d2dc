package kanzentest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// Each test has a control plane of its own, of one server.
func TestPlane(t *testing.T) {
	s := kanzentest.Start(t, kanzentest.Planes())
	for range 3 {
		t.Run("", func(t *testing.T) {
			k := kubernetes.NewForConfigOrDie(s.Plane(t).Config())
			namespaces := k.CoreV1().Namespaces()
			if _, err := namespaces.Get(t.Context(), "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("a new plane: %v", err)
			}
			if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			w, err := k.CoreV1().ConfigMaps("shop").Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			if _, err := k.CoreV1().ConfigMaps("shop").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			<-w.ResultChan()
		})
	}
	if _, err := kanzentest.Start(t).NewPlane(t.Context()); err == nil {
		t.Error("a plane of a server without them")
	}
}
