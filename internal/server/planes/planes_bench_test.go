package planes

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

// BenchmarkCreate creates planes, one after another.
func BenchmarkCreate(b *testing.B) {
	g := start(b, settings(b.TempDir()))
	g.create(b, "first", PlaneSpec{})
	n := 0
	for b.Loop() {
		n++
		g.create(b, fmt.Sprint("p", n), PlaneSpec{})
	}
}

// BenchmarkWake asks a plane that is asleep.
func BenchmarkWake(b *testing.B) {
	g := start(b, settings(b.TempDir()))
	g.create(b, "one", PlaneSpec{})
	g.must(b, "one", "GET", "/api/v1/namespaces", "", nil)
	for b.Loop() {
		b.StopTimer()
		if err := g.find("one").sleep(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		g.must(b, "one", "GET", "/api/v1/namespaces", "", nil)
	}
}

// BenchmarkTakeOver asks planes that another server has had.
func BenchmarkTakeOver(b *testing.B) {
	s := startSeveral(b, 1)
	for n := range b.N {
		s.all[0].create(b, fmt.Sprint("p", n), PlaneSpec{})
	}
	s.all[0].stop()
	g := s.join(b)
	clients := make([]apiclient.Client, b.N)
	for n := range clients {
		clients[n] = g.over(b, fmt.Sprint("p", n))
	}
	b.ResetTimer()
	for _, c := range clients {
		if err := c.Do(b.Context(), http.MethodGet, "/api/v1/namespaces", "", nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemory reports what a plane holds that is asleep, and one that is awake: of memory, and of live objects.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		g := start(b, settings(b.TempDir()))
		g.create(b, "first", PlaneSpec{})
		g.must(b, "first", "GET", "/api/v1/namespaces", "", nil)
		heap := func() (used, live float64) {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return float64(m.HeapInuse+m.StackInuse) / 1024, float64(m.HeapAlloc) / 1024
		}
		const asleep, awake = 500, 100
		before, _ := heap()
		for n := range asleep {
			g.create(b, fmt.Sprint("p", n), PlaneSpec{})
		}
		slept, had := heap()
		goroutines := runtime.NumGoroutine()
		for n := range awake {
			g.must(b, fmt.Sprint("p", n), "GET", "/api/v1/namespaces", "", nil)
		}
		time.Sleep(2 * time.Second) // what they do after their start
		woken, live := heap()
		b.ReportMetric((slept-before)/asleep, "KiB/asleep")
		b.ReportMetric((woken-slept)/awake, "KiB/awake")
		b.ReportMetric((live-had)/awake, "KiB-live/awake")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/awake, "goroutines/awake")
	}
}
