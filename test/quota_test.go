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
	"k8s.io/client-go/kubernetes"
)

// Many clients of two servers on one etcd try to use more than a quota allows:
// it is used up, and never passed.
func TestQuotaUnderTwoServers(t *testing.T) {
	t.Parallel()
	const clients, attempts, hard = 64, 6, 100
	dir := t.TempDir()
	etcd, peer := "http://127.0.0.1:"+freePort(t), "http://127.0.0.1:"+freePort(t)
	start(t, link(t, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peer, "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync=true")
	within(t, 20*time.Second, "etcd is healthy", func(ctx context.Context) bool { return healthy(ctx, http.DefaultClient, etcd+"/health") })
	var sides []*kubernetes.Clientset
	for _, name := range []string{"a", "b"} {
		k := serve(t, filepath.Join(dir, name), "--etcd-servers="+etcd, "--disable-admission-plugins=ServiceAccount", "--controllers=")
		sides = append(sides, k.client())
	}
	ctx := t.Context()
	if _, err := sides[0].CoreV1().Namespaces().Create(ctx, namespace("full"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	limits := corev1.ResourceList{"pods": *resource.NewQuantity(hard, resource.DecimalSI), "requests.cpu": resource.MustParse("100")}
	quota, err := sides[0].CoreV1().ResourceQuotas("full").Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: limits},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// What the quota controller does.
	quota.Status = corev1.ResourceQuotaStatus{Hard: limits, Used: corev1.ResourceList{"pods": resource.MustParse("0"), "requests.cpu": resource.MustParse("0")}}
	if _, err := sides[0].CoreV1().ResourceQuotas("full").UpdateStatus(ctx, quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	var created, refused atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for a := range attempts {
				_, err := sides[(c+a)%2].CoreV1().Pods("full").Create(ctx, quotaPod(fmt.Sprintf("p-%d-%d", c, a)), metav1.CreateOptions{})
				switch {
				case err == nil:
					created.Add(1)
				case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
					refused.Add(1)
				default:
					t.Errorf("neither created nor over quota: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if created.Load() != hard || refused.Load() != clients*attempts-hard {
		t.Errorf("%d created and %d refused, want %d and %d", created.Load(), refused.Load(), hard, clients*attempts-hard)
	}
	for i, side := range sides {
		pods, err := side.CoreV1().Pods("full").List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		q, err := side.CoreV1().ResourceQuotas("full").Get(ctx, "q", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		used := q.Status.Used["pods"]
		if len(pods.Items) != hard || used.Value() != hard {
			t.Errorf("server %d: %d pods, %s used, want %d", i, len(pods.Items), used.String(), hard)
		}
	}
}

func quotaPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}},
	}}}}
}
