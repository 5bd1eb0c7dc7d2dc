package kanzentest_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/pkg/kanzentest"
)

func start(t testing.TB) *kanzentest.Server {
	t.Helper()
	s, err := kanzentest.New(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func stop(t testing.TB, s *kanzentest.Server) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
}

// median reports the median of durations, in milliseconds.
func median(b *testing.B, all []time.Duration, unit string) {
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, unit)
}

// BenchmarkStart is a start and a stop; ready-ms is the start alone, first-ms that of the first server of the process.
func BenchmarkStart(b *testing.B) {
	began := time.Now()
	stop(b, start(b))
	first := time.Since(began)
	used := processorTime(b)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		s := start(b)
		took = append(took, time.Since(began))
		stop(b, s)
	}
	b.ReportMetric(float64((processorTime(b)-used).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
	median(b, took, "ready-ms")
}

// BenchmarkReset takes back a namespace with ten ConfigMaps.
func BenchmarkReset(b *testing.B) {
	s := start(b)
	defer stop(b, s)
	k := client(b, s.Config())
	var took []time.Duration
	for b.Loop() {
		if _, err := k.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		for range 10 {
			if _, err := k.CoreV1().ConfigMaps("a").Create(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		began := time.Now()
		if err := s.Reset(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	median(b, took, "reset-ms")
}

// BenchmarkServers has 200 servers in one process.
func BenchmarkServers(b *testing.B) {
	const servers = 200
	for b.Loop() {
		first := start(b)
		before := heap()
		var all []*kanzentest.Server
		began := time.Now()
		for range servers {
			all = append(all, start(b))
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds())/servers, "ms/start")
		b.ReportMetric(float64(heap()-before)/servers/(1<<20), "MiB/server")
		b.ReportMetric(float64(runtime.NumGoroutine())/servers, "goroutines/server")
		for _, s := range all {
			stop(b, s)
		}
		stop(b, first)
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-left")
	}
}

// heap is the memory that is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
