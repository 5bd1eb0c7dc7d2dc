package server

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
)

// shared opens a process for the control planes of a test.
func shared(t testing.TB) *process.Process {
	t.Helper()
	cfg := config.Standalone()
	cfg.DataDir, cfg.UnsafeNoFsync, cfg.NoListener = t.TempDir(), true, true
	g, err := openWith(&cfg, process.Given{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// plane runs a control plane under a prefix, and returns when it is ready.
func plane(t testing.TB, g *process.Process, prefix string) *server {
	t.Helper()
	cfg := config.Standalone()
	cfg.DataDir, cfg.NoListener, cfg.EtcdPrefix = t.TempDir(), true, prefix
	cfg.Controllers = []string{"*", "-root-ca-certificate-publisher-controller"} // the test counts ConfigMaps
	return running(t, planeOn(t, &cfg, g), func() error { return nil })
}

func clientOf(s *server) *kubernetes.Clientset {
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://kanzen", Transport: s.Transport(masters), QPS: -1})
}

// TestTwoControlPlanes has two control planes on one etcd in one process. Each
// has its own objects, watches, users and addresses of services.
func TestTwoControlPlanes(t *testing.T) {
	g := shared(t)
	one, other := plane(t, g, "/a"), plane(t, g, "/b")
	a, b := clientOf(one), clientOf(other)
	watched, err := b.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	uids := map[types.UID]bool{}
	for n, c := range []*kubernetes.Clientset{a, b} {
		ns, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "same"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		uids[ns.UID] = true
		if _, err := c.CoreV1().ConfigMaps("same").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Data: map[string]string{"of": fmt.Sprint(n)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// The same address is free in each.
		svc, err := c.CoreV1().Services("same").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"},
			Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.77", Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		if err != nil || svc.Spec.ClusterIP != "10.0.0.77" {
			t.Fatalf("%v, %v", svc, err)
		}
	}
	if len(uids) != 2 {
		t.Error("the namespaces are one")
	}
	for e := range watched.ResultChan() {
		c, ok := e.Object.(*corev1.ConfigMap)
		if !ok {
			t.Fatalf("%+v", e)
		}
		if c.Namespace != "same" {
			continue // every cluster has them
		}
		if e.Type != watch.Added || c.Data["of"] != "1" {
			t.Errorf("%s %v", e.Type, c.Data)
		}
		break
	}
	if err := a.CoreV1().Namespaces().Delete(t.Context(), "same", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CoreV1().ConfigMaps("same").Get(t.Context(), "c", metav1.GetOptions{}); err != nil {
		t.Errorf("what was deleted in one is gone from the other: %v", err)
	}
	// A token of one is invalid in the other: each has its own keys.
	if _, err := a.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := a.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "sa", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[*server]int{one: http.StatusForbidden, other: http.StatusUnauthorized} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kanzen/api/v1/nodes", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token.Status.Token)
		resp, err := s.Transport(nil).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("a token of the first: %s, want %d", resp.Status, want)
		}
	}
}

// BenchmarkControlPlanes starts twenty control planes on one etcd in one process:
// the time that each takes to be ready, and its memory.
func BenchmarkControlPlanes(b *testing.B) {
	const planes = 20
	for b.Loop() {
		g := shared(b)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var took []time.Duration
		for n := range planes {
			began := time.Now()
			s := plane(b, g, fmt.Sprintf("/plane%d", n))
			took = append(took, time.Since(began))
			if code := status200(s); code != http.StatusOK {
				b.Fatal(code)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/start")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/planes/(1<<20), "MiB/plane")
	}
}

func status200(s *server) int {
	req, err := http.NewRequest(http.MethodGet, "http://kanzen/readyz", nil)
	if err != nil {
		return 0
	}
	resp, err := s.Transport(masters).RoundTrip(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
