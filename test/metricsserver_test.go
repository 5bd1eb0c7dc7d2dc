package test

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/wire/pki/pkitest"
)

var withMetricsServer = flag.Bool("metrics-server", false, "build metrics-server from its module, which takes minutes, and run it behind kanzen")

// TestMetricsServer puts metrics-server behind kanzen, with what serves a kubelet's metrics, and asks kubectl top.
func TestMetricsServer(t *testing.T) {
	if !*withMetricsServer {
		t.Skip("run with -metrics-server")
	}
	t.Parallel()
	k := serve(t, filepath.Join(t.TempDir(), "data"))
	ctx, c := t.Context(), k.client()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"kubernetes.io/hostname": "node"}}}
	node, err := c.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	must(t, err)
	node.Status = corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletMetrics(t)}},
		Allocatable:     corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")},
		Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	_, err = c.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	must(t, err)
	within(t, time.Minute, "a pod", func(ctx context.Context) bool {
		_, err := c.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "busy"},
			Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
		return err == nil // there is the namespace's service account
	})
	pod, err := c.CoreV1().Pods("default").Get(ctx, "busy", metav1.GetOptions{})
	must(t, err)
	pod.Status.Phase = corev1.PodRunning
	_, err = c.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	must(t, err)
	p := registerMetricsServer(t, k)
	top := func(args ...string) string {
		stdout, stderr, _ := output(t, binaries.kubectl, append([]string{"--kubeconfig", k.kubeconfig(), "top"}, args...)...)
		return stdout + stderr
	}
	// It takes metrics-server two readings, ten seconds apart.
	defer func() {
		if t.Failed() {
			t.Log(top("node"), top("pod", "busy"), p.stderr.String())
		}
	}()
	within(t, 60*time.Second, "kubectl top", func(context.Context) bool {
		return strings.Contains(top("node"), "64Mi") && strings.Contains(top("pod", "busy"), "32Mi")
	})
	stdout, stderr, _ := output(t, binaries.kubectl, "--kubeconfig", k.kubeconfig(), "get", "podmetrics")
	if !strings.Contains(stdout, "busy") {
		t.Errorf("kubectl get podmetrics: %s%s", stdout, stderr)
	}
}

// registerMetricsServer starts metrics-server and registers it.
func registerMetricsServer(t *testing.T, k *kanzen) *process {
	t.Helper()
	program, err := build("METRICS_SERVER", filepath.Join(t.TempDir(), "metricsserver"), "metricsserver", ".")
	must(t, err)
	pair := pkitest.Server(t, "metrics-server.kube-system.svc", "localhost")
	cert, key := pair.Write(t, t.TempDir())
	port := freePort(t)
	p := start(t, program, "--bind-address=127.0.0.1", "--secure-port", port, "--tls-cert-file", cert, "--tls-private-key-file", key, "--metric-resolution=10s", "--kubelet-request-timeout=5s",
		"--kubelet-insecure-tls", "--kubelet-use-node-status-port", "--kubelet-preferred-address-types=InternalIP",
		"--kubeconfig", k.kubeconfig(), "--authentication-kubeconfig", k.kubeconfig(), "--authorization-kubeconfig", k.kubeconfig())
	registerLocal(t, k.client(), "kube-system", "metrics-server", port, pair.PEM(), "metrics.k8s.io/v1beta1")
	return p
}

// kubeletMetrics serves what metrics-server reads of a kubelet, and returns its port. What is used grows with time.
func kubeletMetrics(t *testing.T) int32 {
	pair := pkitest.Server(t, "localhost", "127.0.0.1")
	began := time.Now()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		seconds, at := 100+now.Sub(began).Seconds()/2, now.UnixMilli()
		labels := `{container="c",namespace="default",pod="busy"}`
		for _, line := range []string{
			fmt.Sprintf("# TYPE node_cpu_usage_seconds_total counter\nnode_cpu_usage_seconds_total %f %d", seconds, at),
			fmt.Sprintf("# TYPE node_memory_working_set_bytes gauge\nnode_memory_working_set_bytes %d %d", 64<<20, at),
			fmt.Sprintf("# TYPE container_cpu_usage_seconds_total counter\ncontainer_cpu_usage_seconds_total%s %f %d", labels, seconds, at),
			fmt.Sprintf("# TYPE container_memory_working_set_bytes gauge\ncontainer_memory_working_set_bytes%s %d %d", labels, 32<<20, at),
			fmt.Sprintf("# TYPE container_start_time_seconds gauge\ncontainer_start_time_seconds%s %d", labels, began.Add(-time.Hour).Unix()),
		} {
			fmt.Fprintln(w, line)
		}
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS()}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return int32(s.Listener.Addr().(*net.TCPAddr).Port)
}
