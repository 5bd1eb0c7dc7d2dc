package histogram_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series/seriestest"
)

// both are a Vec and the prometheus.HistogramVec that it is to be like.
type both struct {
	seriestest.Pair
	got  *histogram.Vec
	want *prometheus.HistogramVec
}

func newBoth(o prometheus.HistogramOpts) *both {
	b, labels := &both{Pair: seriestest.New()}, []string{"verb", "code"}
	o.Name, o.Help, o.ConstLabels = "took_seconds", "h", prometheus.Labels{"a": "b"}
	b.got, b.want = histogram.NewVec(o, labels), prometheus.NewHistogramVec(o, labels)
	b.Got.MustRegister(b.got)
	b.Want.MustRegister(b.want)
	return b
}

// options are those of most histograms.
func options(native bool) prometheus.HistogramOpts {
	return histogram.Opts(histogram.Registry(nil, native), prometheus.HistogramOpts{Buckets: []float64{0.01, 0.1, 1}})
}

func (b *both) observe(verb, code string, value float64) {
	b.got.WithLabelValues(verb, code).Observe(value)
	b.want.WithLabelValues(verb, code).Observe(value)
}

// TestVec compares random observations and deletions with those of the library.
func TestVec(t *testing.T) {
	t.Parallel()
	for _, native := range []bool{false, true} {
		b, r := newBoth(options(native)), rand.New(rand.NewPCG(1, 2))
		b.Same(t)
		for n := range 2000 {
			b.observe(fmt.Sprint("v", r.IntN(8)), fmt.Sprint(r.IntN(1+n/100)), r.ExpFloat64()/10)
			switch r.IntN(200) {
			case 0:
				b.got.Reset()
				b.want.Reset()
			case 1, 2, 3:
				match := prometheus.Labels{"verb": fmt.Sprint("v", r.IntN(9))}
				if r.IntN(2) == 0 {
					match["code"] = fmt.Sprint(r.IntN(3))
				}
				if got, want := b.got.DeletePartialMatch(match), b.want.DeletePartialMatch(match); got != want {
					t.Fatalf("%d series deleted, want %d", got, want)
				}
			}
			if n%50 == 0 {
				b.Same(t)
			}
		}
		if n := b.got.DeletePartialMatch(prometheus.Labels{"else": "x"}); n != 0 {
			t.Errorf("%d series have a label that there is not", n)
		}
	}
}

// Observations are not lost while a series begins to count them, while it is read, and while its native buckets are merged.
func TestVecConcurrent(t *testing.T) {
	t.Parallel()
	o := options(true)
	o.Name, o.Help = "x", "h"
	v, r := histogram.NewVec(o, nil), prometheus.NewPedanticRegistry()
	r.MustRegister(v)
	const workers, each = 8, 1000
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			for i := range each {
				v.WithLabelValues().Observe(math.Ldexp(1, i%300-50) * (1 + float64(n)/workers)) // in more than 160 buckets
			}
		})
		all.Go(func() {
			for range 50 {
				consistent(t, r)
			}
		})
	}
	all.Wait()
	if h := consistent(t, r); h.GetSampleCount() != workers*each || h.GetSchema() > 0 {
		t.Errorf("%v, want %d observations in few buckets", h, workers*each)
	}
}

// consistent gathers a histogram whose observations are all in a bucket with and in one without a bound.
func consistent(t *testing.T, r *prometheus.Registry) *dto.Histogram {
	families, err := r.Gather()
	if err != nil {
		t.Error(err)
	}
	if len(families) == 0 { // nothing is observed yet
		return nil
	}
	h := families[0].Metric[0].Histogram
	native, count := h.GetZeroCount(), int64(0)
	for _, delta := range h.PositiveDelta {
		count += delta
		native += uint64(count)
	}
	if below := h.Bucket[len(h.Bucket)-1].GetCumulativeCount(); native != h.GetSampleCount() || below > native {
		t.Errorf("%d observations, of which %d are in native buckets and %d in others", h.GetSampleCount(), native, below)
	}
	return h
}
