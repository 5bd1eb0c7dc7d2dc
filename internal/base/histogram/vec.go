package histogram

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/kanzen-io/kanzen/internal/base/series"
)

// few is how many observations a series keeps as they are.
const few = 16

// Vec is a prometheus.HistogramVec for histograms with many series, most of which hardly observe anything: those of the kinds of a control
// plane, say, of which a process can have hundreds. A series of that takes over 2 KB from its first observation on. Here one keeps its
// first observations as they are, and counts them by the next one. What is collected is the same.
//
// To observe is cheap too, since every request does so a few times: the library looks up native buckets in maps that need no lock, and
// keeps everything twice so that it can be read meanwhile; here counts are in slices, behind a lock that is held for a few increments.
type Vec = series.Set[*Histogram]

// Histogram has the observations of some labels.
type Histogram struct {
	series.Of
	kind *kind

	mu   sync.Mutex
	few  []float64 // until there is full; guarded by mu
	full *counts   // nil: it has few; guarded by mu
}

// NewVec makes a histogram with labels. Like the library, it panics if the options make no sense, or if a label is that of buckets.
func NewVec(o prometheus.HistogramOpts, labels []string) *Vec {
	if _, ok := o.ConstLabels[bucketLabel]; ok || slices.Contains(labels, bucketLabel) {
		panic("a histogram cannot have the label " + bucketLabel)
	}
	k := newKind(o)
	return series.NewSet(prometheus.Opts{Namespace: o.Namespace, Subsystem: o.Subsystem, Name: o.Name, Help: o.Help, ConstLabels: o.ConstLabels}, labels,
		func(of series.Of) *Histogram { return &Histogram{Of: of, kind: k} })
}

// bucketLabel has the bound of a bucket where a histogram is written as text.
const bucketLabel = "le"

// Observe is part of prometheus.Observer.
func (h *Histogram) Observe(value float64) {
	at := h.kind.place(value) // needs no lock
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.full != nil {
		h.full.observe(h.kind, value, at)
		return
	}
	if h.few = append(h.few, value); len(h.few) > few {
		h.few, h.full = nil, h.kind.count(h.few)
	}
}

// Collect is part of prometheus.Collector.
func (h *Histogram) Collect(ch chan<- prometheus.Metric) { ch <- h }

// Write is part of prometheus.Metric.
func (h *Histogram) Write(out *dto.Metric) error {
	out.Label, out.Histogram = prometheus.MakeLabelPairs(h.Desc(), h.Values()), h.counts().write(h.kind)
	out.Histogram.CreatedTimestamp = timestamppb.New(h.Began())
	return nil
}

// counts returns a copy, so that nobody who observes waits for what is made of it.
func (h *Histogram) counts() *counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.full != nil {
		return h.full.clone()
	}
	return h.kind.count(h.few)
}
