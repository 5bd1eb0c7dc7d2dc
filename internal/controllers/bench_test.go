package controllers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// BenchmarkNamespace deletes a namespace with 10,000 objects of two kinds: until the namespace itself is gone.
func BenchmarkNamespace(b *testing.B) {
	k := kubernetes.NewForConfigOrDie(kanzentest.Start(b).Config())
	for range b.N {
		b.StopTimer()
		if _, err := k.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for n := w; n < 10_000; n += 16 {
					meta := metav1.ObjectMeta{Name: fmt.Sprintf("o%05d", n)}
					var err error
					if n%2 == 0 {
						_, err = k.CoreV1().ConfigMaps("work").Create(b.Context(), &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
					} else {
						_, err = k.CoreV1().Secrets("work").Create(b.Context(), &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.StartTimer()
		if err := k.CoreV1().Namespaces().Delete(b.Context(), "work", metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		for {
			_, err := k.CoreV1().Namespaces().Get(ctx, "work", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			<-time.After(5 * time.Millisecond)
		}
		cancel()
	}
}
