package garbagecollector_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

// BenchmarkDependents deletes an owner of many: until the last one is gone.
func BenchmarkDependents(b *testing.B) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		b.Run(string(policy), func(b *testing.B) {
			k := client(b)
			for range b.N {
				b.StopTimer()
				owner := configMap(b, k, "owner")
				var wg sync.WaitGroup
				for w := range 16 {
					wg.Go(func() {
						for n := w; n < 10_000; n += 16 {
							configMap(b, k, fmt.Sprintf("d%05d", n), ref("owner", owner, true))
						}
					})
				}
				wg.Wait()
				b.StartTimer()
				if err := k.CoreV1().ConfigMaps("default").Delete(b.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
					b.Fatal(err)
				}
				empty(b, k, policy == metav1.DeletePropagationOrphan)
				b.StopTimer()
				if policy == metav1.DeletePropagationOrphan {
					if err := k.CoreV1().ConfigMaps("default").DeleteCollection(b.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "test"}); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkChain deletes the first of a thousand objects of which each owns the next.
func BenchmarkChain(b *testing.B) {
	k := client(b)
	for range b.N {
		b.StopTimer()
		last := configMap(b, k, "owner")
		for n := range 999 {
			name := "owner"
			if n > 0 {
				name = fmt.Sprintf("c%03d", n-1)
			}
			last = configMap(b, k, fmt.Sprintf("c%03d", n), ref(name, last, true))
		}
		b.StartTimer()
		if err := k.CoreV1().ConfigMaps("default").Delete(b.Context(), "owner", metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		empty(b, k, false)
	}
}

func client(b *testing.B) *kubernetes.Clientset {
	b.Helper()
	c := kanzentest.Start(b).Config()
	c.QPS = -1
	return kubernetes.NewForConfigOrDie(c)
}

func configMap(b *testing.B, k *kubernetes.Clientset, name string, refs ...metav1.OwnerReference) types.UID {
	m, err := k.CoreV1().ConfigMaps("default").Create(b.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: refs, Labels: map[string]string{"test": "yes"}}}, metav1.CreateOptions{})
	if err != nil {
		b.Error(err)
		return ""
	}
	return m.UID
}

// empty returns when no objects are left or, with stay, when their owner is gone.
func empty(b *testing.B, k *kubernetes.Clientset, stay bool) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for {
		o := metav1.ListOptions{LabelSelector: "test", Limit: 1}
		if stay {
			o = metav1.ListOptions{FieldSelector: "metadata.name=owner"}
		}
		list, err := k.CoreV1().ConfigMaps("default").List(ctx, o)
		if err != nil {
			b.Fatal(err)
		}
		if len(list.Items) == 0 {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}
