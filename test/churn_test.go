package test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/test/churn"
)

var (
	churnFor   = flag.Duration("churn", 0, "how long deployments roll and scale on nodes of kwok, on kanzen and on kube-apiserver if it is there; 0: not at all")
	churnNodes = flag.Int("churn.nodes", 300, "nodes")
	churnPods  = flag.Int("churn.pods", 3000, "pods")
)

// TestChurn lets Deployments roll, scale and lose pods for a while, and reports what that cost the server: processor time, memory
// over time, and the 99th percentile of each verb by the server's own histogram. Errors of the server fail it.
func TestChurn(t *testing.T) {
	if *churnFor == 0 {
		t.Skip("run with -churn=20m")
	}
	// A loaded machine must not make nodes look dead.
	fast := []string{"kube-controller-manager --node-monitor-grace-period=200s", "kube-controller-manager --kube-api-qps=500", "kube-controller-manager --kube-api-burst=1000", "kube-controller-manager --concurrent-deployment-syncs=20",
		"kube-controller-manager --concurrent-replicaset-syncs=20", "kube-scheduler --kube-api-qps=500", "kube-scheduler --kube-api-burst=1000"}
	targets := []func(testing.TB, ...string) *machines{onKanzen}
	if _, err := os.Stat(filepath.Join("..", "bench", "peer", "bin", "kube-apiserver")); err == nil {
		targets = append(targets, onPeer)
	}
	var reports []string
	for _, target := range targets {
		m := target(t, fast...)
		reports = append(reports, m.churn(*churnFor))
		for _, p := range m.programs {
			p.kill()
		}
		for _, pid := range m.measured { // the next one has the machine to itself
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	}
	t.Log("\n" + strings.Join(reports, "\n"))
}

// churn is the load and its report.
func (m *machines) churn(last time.Duration) string {
	const deployments = 30
	each := int32(*churnPods / deployments)
	begin := time.Now()
	m.nodes(*churnNodes)
	labels := func(n int) map[string]string { return map[string]string{"app": fmt.Sprintf("d%02d", n)} }
	for n := range deployments {
		_, err := m.k.AppsV1().Deployments("default").Create(m.t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("d%02d", n)}, Spec: appsv1.DeploymentSpec{
			Replicas: &each, Selector: &metav1.LabelSelector{MatchLabels: labels(n)}, Template: churn.Template(labels(n))}}, metav1.CreateOptions{})
		must(m.t, err)
	}
	available := func() (n int32) {
		list, err := m.k.AppsV1().Deployments("default").List(m.t.Context(), metav1.ListOptions{})
		if err != nil {
			return -1
		}
		for _, d := range list.Items {
			n += d.Status.AvailableReplicas
		}
		return n
	}
	within(m.t, 15*time.Minute, "all pods run", func(context.Context) bool { return available() >= each*deployments })
	up := time.Since(begin)

	cpu, _ := m.usage()
	before := m.histograms()
	began := time.Now()
	ctx, cancel := context.WithTimeout(m.t.Context(), last)
	defer cancel()
	var wg sync.WaitGroup
	var failed int64
	var firstError error
	var mu sync.Mutex
	count := func(err error) {
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			if failed++; firstError == nil {
				firstError = err
			}
		}
	}
	// One after the other rolls and scales; meanwhile pods are deleted. No request is given up at the end: the server would count
	// it as one that took too long.
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			name := fmt.Sprintf("d%02d", n%deployments)
			_, err := m.k.AppsV1().Deployments("default").Patch(m.t.Context(), name, types.StrategicMergePatchType,
				fmt.Appendf(nil, `{"spec":{"replicas":%d,"template":{"metadata":{"annotations":{"round":"%d"}}}}}`, each-int32(n/deployments%2)*each/4, n), metav1.PatchOptions{})
			count(err)
			churn.Pause(ctx, 2*time.Second)
		}
	})
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			pods, err := m.k.CoreV1().Pods("default").List(m.t.Context(), metav1.ListOptions{LabelSelector: fmt.Sprintf("app=d%02d", n*7%deployments), Limit: 5, ResourceVersion: "0"})
			count(err)
			if err == nil {
				for _, p := range pods.Items {
					_ = m.k.CoreV1().Pods("default").Delete(m.t.Context(), p.Name, metav1.DeleteOptions{}) // it may be gone by now
				}
			}
			churn.Pause(ctx, time.Second)
		}
	})
	var memory []int64
	for ctx.Err() == nil {
		_, held := m.usage()
		memory = append(memory, held>>20)
		churn.Pause(ctx, last/20)
	}
	wg.Wait()
	took := time.Since(began)
	used, _ := m.usage()
	after := m.histograms()
	if failed > 0 {
		m.t.Errorf("%s: %d requests of the test failed, first %v", m.name, failed, firstError)
	}
	if n := after.errors - before.errors; n > 0 && m.name == "kanzen" {
		m.t.Errorf("the server answered %v requests with 5xx: %v", n, after.failures)
	}
	return fmt.Sprintf("%s: %d nodes, %d pods up in %.0f s; churn of %.0f s: %.0f %% of a processor, 5xx %v, memory in MiB %v\n%s",
		m.name, *churnNodes, *churnPods, up.Seconds(), took.Seconds(), 100*(used-cpu).Seconds()/took.Seconds(), after.errors-before.errors, memory, after.since(before))
}

// histograms are the durations of requests, by verb, and the answers that are errors of the server.
type histograms struct {
	buckets  map[string]map[float64]float64 // by verb and upper bound
	errors   float64
	failures []string
}

var (
	durationBucket = regexp.MustCompile(`^apiserver_request_duration_seconds_bucket\{(.*)\} (\S+)$`)
	requestTotal   = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)
	metricLabel    = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

func (m *machines) histograms() histograms {
	m.t.Helper()
	text, err := m.k.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(m.t.Context())
	must(m.t, err)
	h := histograms{buckets: map[string]map[float64]float64{}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if f := durationBucket.FindStringSubmatch(line); f != nil {
			l := labelsOf(f[1])
			bound, value := number(l["le"]), number(f[2])
			if l["verb"] == "WATCH" || l["verb"] == "CONNECT" {
				continue
			}
			if h.buckets[l["verb"]] == nil {
				h.buckets[l["verb"]] = map[float64]float64{}
			}
			h.buckets[l["verb"]][bound] += value
		} else if f := requestTotal.FindStringSubmatch(line); f != nil {
			if l := labelsOf(f[1]); strings.HasPrefix(l["code"], "5") {
				h.errors += number(f[2])
				h.failures = append(h.failures, line)
			}
		}
	}
	return h
}

func labelsOf(s string) map[string]string {
	out := map[string]string{}
	for _, m := range metricLabel.FindAllStringSubmatch(s, -1) {
		out[m[1]] = m[2]
	}
	return out
}

func number(s string) float64 {
	if s == "+Inf" {
		return math.Inf(1)
	}
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

// since is a line for each verb: requests, and the bucket in which the 99th percentile lies.
func (h histograms) since(before histograms) string {
	out := ""
	for _, verb := range slices.Sorted(maps.Keys(h.buckets)) {
		bounds := slices.Sorted(maps.Keys(h.buckets[verb]))
		all := h.buckets[verb][math.Inf(1)] - before.buckets[verb][math.Inf(1)]
		if all == 0 {
			continue
		}
		at := func(share float64) float64 {
			for _, b := range bounds {
				if h.buckets[verb][b]-before.buckets[verb][b] >= share*all {
					return b
				}
			}
			return math.Inf(1)
		}
		out += fmt.Sprintf("  %-18s %8.0f requests, half within %v s, 99 of 100 within %v s\n", verb, all, at(0.5), at(0.99))
	}
	return out
}
