package test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// Many clients of two servers on one etcd create and delete under a quota that
// they would pass: it is used up and never passed, what is deleted can be used
// again, and what is written down is what there is once they are done.
func TestQuotaUnderTwoServers(t *testing.T) {
	t.Parallel()
	const clients, attempts, hard = 64, 12, 100
	sides := twoServers(t)
	ctx := t.Context()
	if _, err := sides[0].CoreV1().Namespaces().Create(ctx, namespace("full"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	limits := corev1.ResourceList{"pods": *resource.NewQuantity(hard, resource.DecimalSI), "requests.cpu": resource.MustParse("100")}
	if _, err := sides[0].CoreV1().ResourceQuotas("full").Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: limits},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, side := range sides {
		awaitUsed(t, side, 0)
	}
	upTo := watchMost(t, sides[1], "full")

	var created, refused, deleted atomic.Int64
	create := func(side *kubernetes.Clientset, name string) bool {
		_, err := side.CoreV1().Pods("full").Create(ctx, quotaPod(name), metav1.CreateOptions{})
		switch {
		case err == nil:
			created.Add(1)
		case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
			refused.Add(1)
		default:
			t.Errorf("neither created nor over quota: %v", err)
		}
		return err == nil
	}
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for a := range attempts {
				name := fmt.Sprintf("p-%d-%d", c, a)
				if !create(sides[(c+a)%2], name) || a%3 == 0 {
					continue
				}
				if err := sides[(c+a+1)%2].CoreV1().Pods("full").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				deleted.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d created, %d of them deleted, %d refused", created.Load(), deleted.Load(), refused.Load())
	if refused.Load() == 0 || created.Load() <= hard {
		t.Errorf("%d created and %d refused: the quota was not put to the test", created.Load(), refused.Load())
	}
	for _, side := range sides {
		awaitUsed(t, side, created.Load()-deleted.Load())
	}
	// What is left of it can be used to the last.
	n := 0
	within(t, 30*time.Second, "the quota is used up", func(context.Context) bool {
		n++
		return !create(sides[n%2], fmt.Sprint("last-", n))
	})
	for _, side := range sides {
		awaitUsed(t, side, hard)
	}
	if most := upTo(hard); most != hard {
		t.Errorf("there were up to %d pods at a time, want %d", most, hard)
	}
	// All at once, and used up again.
	if err := sides[0].CoreV1().Pods("full").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitUsed(t, sides[1], 0)
	for n := range hard {
		if !create(sides[n%2], fmt.Sprint("again-", n)) {
			t.Fatalf("pod %d of %d was refused", n, hard)
		}
	}
	if create(sides[1], "too-many") {
		t.Error("the quota was passed")
	}
}

// twoServers starts two servers on one etcd and returns their clients.
func twoServers(t *testing.T) (sides []*kubernetes.Clientset) {
	t.Helper()
	dir := t.TempDir()
	etcd, peer := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t)
	start(t, link(t, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync=true")
	within(t, 20*time.Second, "etcd is healthy", func(ctx context.Context) bool { return healthy(ctx, http.DefaultClient, etcd+"/health") })
	for _, name := range []string{"a", "b"} {
		k := serve(t, filepath.Join(dir, name), "--etcd-servers="+etcd, "--disable-admission-plugins=ServiceAccount", "--controllers=resourcequota-controller")
		sides = append(sides, k.client())
	}
	return sides
}

// awaitUsed waits until the quota says that so many pods are used, and sees
// that so many are there.
func awaitUsed(t *testing.T, side *kubernetes.Clientset, want int64) {
	t.Helper()
	used := resource.Quantity{}
	within(t, 30*time.Second, fmt.Sprintf("%d pods are used", want), func(ctx context.Context) bool {
		q, err := side.CoreV1().ResourceQuotas("full").Get(ctx, "q", metav1.GetOptions{})
		if err != nil {
			return false
		}
		n, ok := q.Status.Used["pods"]
		used = n
		cpu := q.Status.Used["requests.cpu"]
		return ok && n.Value() == want && cpu.Value() == want
	})
	pods, err := side.CoreV1().Pods("full").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(pods.Items)) != want {
		t.Errorf("%d pods, want %d; %s used", len(pods.Items), want, used.String())
	}
}

// watchMost counts pods as they come and go. What it returns waits until it has
// counted to so many, and tells how many there were at most.
func watchMost(t *testing.T, side *kubernetes.Clientset, namespace string) (upTo func(n int64) (most int64)) {
	t.Helper()
	pods, err := side.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := side.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: pods.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	var now, most atomic.Int64
	go func() {
		for e := range w.ResultChan() {
			switch e.Type {
			case watch.Added:
				most.Store(max(most.Load(), now.Add(1)))
			case watch.Deleted:
				now.Add(-1)
			}
		}
	}()
	return func(n int64) int64 {
		within(t, 20*time.Second, fmt.Sprintf("the watch has seen %d pods", n), func(context.Context) bool { return now.Load() == n })
		return most.Load()
	}
}

func quotaPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
	}}}}
}
