package histogram_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
)

// vec is what the benchmarks measure of a Vec, and of a prometheus.HistogramVec.
type vec interface {
	with(label string) prometheus.Observer
}

type ours struct{ *histogram.Vec }

func (o ours) with(label string) prometheus.Observer { return o.WithLabelValues(label) }

type theirs struct{ *prometheus.HistogramVec }

func (t theirs) with(label string) prometheus.Observer { return t.WithLabelValues(label) }

// eachKind runs a benchmark of histograms with as many buckets as that of the durations of requests.
func eachKind(b *testing.B, run func(*testing.B, func() vec)) {
	for _, native := range []bool{false, true} {
		o := histogram.Opts(histogram.Registry(nil, native), prometheus.HistogramOpts{Name: "took_seconds", Help: "h", Buckets: []float64{
			0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}})
		labels := []string{"verb"}
		b.Run(fmt.Sprintf("native=%t/of=kanzen", native), func(b *testing.B) { run(b, func() vec { return ours{histogram.NewVec(o, labels)} }) })
		b.Run(fmt.Sprintf("native=%t/of=prometheus", native), func(b *testing.B) { run(b, func() vec { return theirs{prometheus.NewHistogramVec(o, labels)} }) })
	}
}

// durations are like those of requests: a few milliseconds mostly.
func durations(n int) []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]float64, n)
	for n := range all {
		all[n] = r.ExpFloat64() / 100
	}
	return all
}

func BenchmarkObserve(b *testing.B) {
	values := durations(1 << 10)
	eachKind(b, func(b *testing.B, made func() vec) {
		h := made().with("GET")
		for _, value := range values {
			h.Observe(value)
		}
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			h.Observe(values[n%len(values)])
		}
	})
}

// BenchmarkObserveParallel observes with all processors at once, much more often than requests do.
func BenchmarkObserveParallel(b *testing.B) {
	values := durations(1 << 10)
	eachKind(b, func(b *testing.B, made func() vec) {
		h := made().with("GET")
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n++ {
				h.Observe(values[n%len(values)])
			}
		})
	})
}

// BenchmarkObserveMany observes with so many series in turn that hardly anything of one is in the caches of the processor: between the
// observations of a request so much else happens that this is what they cost there.
func BenchmarkObserveMany(b *testing.B) {
	values := durations(1 << 10)
	eachKind(b, func(b *testing.B, made func() vec) {
		v, all := made(), make([]prometheus.Observer, 1<<12)
		for n := range all {
			all[n] = v.with(strconv.Itoa(n))
			for _, value := range values[:100] {
				all[n].Observe(value)
			}
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for n := 0; b.Loop(); n++ {
			all[n%len(all)].Observe(values[n%100])
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	values := durations(1 << 10)
	eachKind(b, func(b *testing.B, made func() vec) {
		v := made()
		for _, value := range values {
			v.with("GET").Observe(value)
		}
		r := prometheus.NewRegistry()
		r.MustRegister(v.(prometheus.Collector))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Gather(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSeries reports the memory of a series with few and with many observations.
func BenchmarkSeries(b *testing.B) {
	const series = 1000
	for _, observed := range []int{16, 17, 1000} {
		values := durations(observed)
		b.Run(fmt.Sprint("observed=", observed), func(b *testing.B) {
			eachKind(b, func(b *testing.B, made func() vec) {
				for b.Loop() {
					before, v := heap(), made()
					for n := range series {
						h := v.with(strconv.Itoa(n))
						for _, value := range values {
							h.Observe(value)
						}
					}
					b.ReportMetric(float64(heap()-before)/series, "B/series")
					runtime.KeepAlive(v)
				}
			})
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
