package histogram_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series/seriestest"
)

// both are a Vec and the prometheus.HistogramVec that it is to be like.
type both struct {
	seriestest.Pair
	got  *histogram.Vec
	want *prometheus.HistogramVec
}

func newBoth(native bool) *both {
	b := &both{Pair: seriestest.New()}
	o := histogram.Opts(histogram.Registry(b.Got, native), prometheus.HistogramOpts{Name: "took_seconds", Help: "h", Buckets: []float64{0.01, 0.1, 1},
		ConstLabels: prometheus.Labels{"a": "b"}})
	labels := []string{"verb", "code"}
	b.got, b.want = histogram.NewVec(o, labels), prometheus.NewHistogramVec(o, labels)
	b.Got.MustRegister(b.got)
	b.Want.MustRegister(b.want)
	return b
}

func (b *both) observe(verb, code string, value float64) {
	b.got.WithLabelValues(verb, code).Observe(value)
	b.want.WithLabelValues(verb, code).Observe(value)
}

// TestVec compares random observations and deletions with those of the library.
func TestVec(t *testing.T) {
	t.Parallel()
	for _, native := range []bool{false, true} {
		b, r := newBoth(native), rand.New(rand.NewPCG(1, 2))
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

// Observations are not lost while a series becomes a histogram, and while it is read.
func TestVecConcurrent(t *testing.T) {
	t.Parallel()
	v := histogram.NewVec(prometheus.HistogramOpts{Name: "x", Help: "h", Buckets: []float64{1}}, nil)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(v)
	const each = 50
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range each {
				v.WithLabelValues().Observe(0.5)
			}
		})
		all.Go(func() {
			if _, err := r.Gather(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if h := got[0].Metric[0].Histogram; h.GetSampleCount() != 8*each || h.Bucket[0].GetCumulativeCount() != 8*each {
		t.Errorf("%v, want %d observations", h, 8*each)
	}
}
