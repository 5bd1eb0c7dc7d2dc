package series_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/base/series/seriestest"
)

var labels = []string{"verb", "code"}

// TestValues compares random changes of counters and gauges with those of the library.
func TestValues(t *testing.T) {
	t.Parallel()
	p, r := seriestest.New(), rand.New(rand.NewPCG(1, 2))
	co := prometheus.CounterOpts{Namespace: "n", Name: "c_total", Help: "h", ConstLabels: prometheus.Labels{"a": "b"}}
	gauge := prometheus.GaugeOpts{Subsystem: "s", Name: "g", Help: "h"}
	gc, wc := series.NewCounterVec(co, labels), prometheus.NewCounterVec(co, labels)
	gg, wg := series.NewGaugeVec(gauge, labels), prometheus.NewGaugeVec(gauge, labels)
	p.Got.MustRegister(gc, gg)
	p.Want.MustRegister(wc, wg)
	for range 5000 {
		verb, code, by := fmt.Sprint("v", r.IntN(8)), fmt.Sprint(r.IntN(9)), float64(r.IntN(100))/4
		switch r.IntN(8) {
		case 0:
			gc.WithLabelValues(verb, code).Add(by)
			wc.WithLabelValues(verb, code).Add(by)
		case 1:
			gg.WithLabelValues(verb, code).Add(by)
			wg.WithLabelValues(verb, code).Add(by)
		case 2:
			gg.WithLabelValues(verb, code).Sub(by)
			wg.WithLabelValues(verb, code).Sub(by)
		case 3:
			gg.WithLabelValues(verb, code).Set(by)
			wg.WithLabelValues(verb, code).Set(by)
		case 4:
			gg.WithLabelValues(verb, code).Dec()
			wg.WithLabelValues(verb, code).Dec()
		case 5:
			gone, want := gc.DeleteLabelValues(verb, code), wc.DeleteLabelValues(verb, code)
			if gone != want {
				t.Fatalf("deleted %v, want %v", gone, want)
			}
		case 6:
			if r.IntN(50) == 0 {
				some := prometheus.Labels{"verb": verb}
				if n, want := gg.DeletePartialMatch(some), wg.DeletePartialMatch(some); n != want {
					t.Fatalf("deleted %d, want %d", n, want)
				}
			}
		default:
			gc.WithLabelValues(verb, code).Inc()
			wc.WithLabelValues(verb, code).Inc()
		}
		if r.IntN(100) == 0 {
			p.Same(t)
		}
	}
	gg.Reset()
	wg.Reset()
	p.Same(t)
}

// TestSummary compares a summary with that of the library, while it has few observations and afterwards.
func TestSummary(t *testing.T) {
	t.Parallel()
	p, r := seriestest.New(), rand.New(rand.NewPCG(3, 4))
	o := prometheus.SummaryOpts{Name: "s", Help: "h", MaxAge: time.Hour, AgeBuckets: 2, Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001}}
	got, want := series.NewSummaryVec(o, labels), prometheus.NewSummaryVec(o, labels)
	p.Got.MustRegister(got)
	p.Want.MustRegister(want)
	for range 100 {
		v := math.Round(r.ExpFloat64() * 100)
		got.WithLabelValues("get", "200").Observe(v)
		want.WithLabelValues("get", "200").Observe(v)
		p.Same(t)
	}
}

// TestOldObservations counts what is older than a summary looks back, but not in its quantiles.
func TestOldObservations(t *testing.T) {
	t.Parallel()
	got := series.NewSummaryVec(prometheus.SummaryOpts{Name: "s", Help: "h", MaxAge: time.Nanosecond, Objectives: map[float64]float64{0.5: 0.05}}, nil)
	got.WithLabelValues().Observe(3)
	time.Sleep(time.Microsecond)
	var m dto.Metric
	if err := got.WithLabelValues().Write(&m); err != nil {
		t.Fatal(err)
	}
	if m.Summary.GetSampleCount() != 1 || m.Summary.GetSampleSum() != 3 || !math.IsNaN(m.Summary.Quantile[0].GetValue()) {
		t.Errorf("%v", m.Summary)
	}
}

func TestWrongLabels(t *testing.T) {
	t.Parallel()
	v := series.NewCounterVec(prometheus.CounterOpts{Name: "c", Help: "h"}, labels)
	for _, values := range [][]string{{"one"}, {"one", "two", "three"}, {"one", "\xff"}, {"one\xfftwo", ""}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q are accepted", values)
				}
			}()
			v.WithLabelValues(values...)
		}()
	}
}

// TestTogether changes series from several goroutines.
func TestTogether(t *testing.T) {
	t.Parallel()
	v := series.NewCounterVec(prometheus.CounterOpts{Name: "c", Help: "h"}, labels)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := range 1000 {
				v.WithLabelValues(fmt.Sprint(n%10), "x").Inc()
			}
		})
	}
	wg.Wait()
	for n := range 10 {
		var m dto.Metric
		if err := v.WithLabelValues(fmt.Sprint(n), "x").Write(&m); err != nil || m.Counter.GetValue() != 800 {
			t.Errorf("%d: %v %v, want 800", n, m.Counter, err)
		}
	}
}

func BenchmarkWithLabelValues(b *testing.B) {
	o := prometheus.CounterOpts{Name: "c", Help: "h"}
	b.Run("here", func(b *testing.B) {
		v := series.NewCounterVec(o, labels)
		for b.Loop() {
			v.WithLabelValues("get", "200").Inc()
		}
	})
	b.Run("library", func(b *testing.B) {
		v := prometheus.NewCounterVec(o, labels)
		for b.Loop() {
			v.WithLabelValues("get", "200").Inc()
		}
	})
}
