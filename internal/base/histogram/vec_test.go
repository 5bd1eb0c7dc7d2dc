package histogram_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
)

// both are a Vec and the prometheus.HistogramVec that it is to be like.
type both struct {
	got       *histogram.Vec
	want      *prometheus.HistogramVec
	gotFrom   *prometheus.Registry
	wantFrom  *prometheus.Registry
	beginning time.Time
}

func newBoth(native bool) *both {
	b := &both{gotFrom: prometheus.NewPedanticRegistry(), wantFrom: prometheus.NewPedanticRegistry(), beginning: time.Now()}
	o := histogram.Opts(histogram.Registry(b.gotFrom, native), prometheus.HistogramOpts{Name: "took_seconds", Help: "h", Buckets: []float64{0.01, 0.1, 1},
		ConstLabels: prometheus.Labels{"a": "b"}})
	labels := []string{"verb", "code"}
	b.got, b.want = histogram.NewVec(o, labels), prometheus.NewHistogramVec(o, labels)
	b.gotFrom.MustRegister(b.got)
	b.wantFrom.MustRegister(b.want)
	return b
}

func (b *both) observe(verb, code string, value float64) {
	b.got.WithLabelValues(verb, code).Observe(value)
	b.want.WithLabelValues(verb, code).Observe(value)
}

// same compares what is gathered. Times of creation are within the test.
func (b *both) same(t *testing.T) {
	t.Helper()
	gather := func(r *prometheus.Registry) []*dto.MetricFamily {
		all, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			for _, m := range f.Metric {
				if at := m.Histogram.CreatedTimestamp.AsTime(); at.Before(b.beginning) || at.After(time.Now()) {
					t.Errorf("%v was created at %s", m.Label, at)
				}
				m.Histogram.CreatedTimestamp = nil
			}
		}
		return all
	}
	got, want := gather(b.gotFrom), gather(b.wantFrom)
	if len(got) != len(want) {
		t.Fatalf("%d families, want %d", len(got), len(want))
	}
	for n := range got {
		if !proto.Equal(got[n], want[n]) {
			t.Fatalf("got  %v\nwant %v", got[n], want[n])
		}
	}
}

// TestVec compares random observations and deletions with those of the library.
func TestVec(t *testing.T) {
	t.Parallel()
	for _, native := range []bool{false, true} {
		b, r := newBoth(native), rand.New(rand.NewPCG(1, 2))
		b.same(t)
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
				b.same(t)
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

// Faulty labels panic as those of the library do.
func TestVecFaults(t *testing.T) {
	t.Parallel()
	for _, values := range [][]string{{"a"}, {"a", "b", "c"}, {"a\xff", "b"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is taken", values)
				}
			}()
			newBoth(false).got.WithLabelValues(values...)
		}()
	}
}
