package histogram

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/kanzen-io/kanzen/internal/base/series"
)

// few is how many observations a series keeps as they are.
const few = 16

// Vec is a prometheus.HistogramVec for histograms with many series, most of which hardly observe anything: those of the kinds of a control
// plane, say, of which a process can have hundreds. A series of that takes over 2 KB from its first observation on. Here one keeps its
// first observations as they are, and becomes a histogram by the next one. What is collected is the same.
type Vec = series.Set[*Histogram]

// Histogram has the observations of some labels.
type Histogram struct {
	series.Of
	kind *kind
	full atomic.Pointer[prometheus.Histogram] // nil: it has few

	mu  sync.Mutex
	few []float64 // until there is full; guarded by mu
}

// kind is what all series of a histogram share.
type kind struct {
	opts   prometheus.HistogramOpts
	labels []string
}

// NewVec makes a histogram with labels.
func NewVec(o prometheus.HistogramOpts, labels []string) *Vec {
	k := &kind{o, labels}
	return series.NewSet(prometheus.Opts{Namespace: o.Namespace, Subsystem: o.Subsystem, Name: o.Name, Help: o.Help, ConstLabels: o.ConstLabels}, labels,
		func(of series.Of) *Histogram { return &Histogram{Of: of, kind: k} })
}

// Observe is part of prometheus.Observer.
func (h *Histogram) Observe(value float64) {
	if full := h.full.Load(); full != nil {
		(*full).Observe(value)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if full := h.full.Load(); full != nil {
		(*full).Observe(value)
		return
	}
	h.few = append(h.few, value)
	if len(h.few) > few {
		full := h.histogram()
		h.full.Store(&full)
		h.few = nil
	}
}

// histogram makes the histogram of few observations. The caller holds mu.
func (h *Histogram) histogram() prometheus.Histogram {
	made := prometheus.NewHistogramVec(h.kind.opts, h.kind.labels).WithLabelValues(h.Values()...)
	for _, value := range h.few {
		made.Observe(value)
	}
	return made.(prometheus.Histogram) // as ObserverVec documents
}

// Collect is part of prometheus.Collector.
func (h *Histogram) Collect(ch chan<- prometheus.Metric) { ch <- h }

// Write is part of prometheus.Metric.
func (h *Histogram) Write(out *dto.Metric) error {
	err := h.whole().Write(out)
	if err == nil {
		out.Histogram.CreatedTimestamp = timestamppb.New(h.Began())
	}
	return err
}

// whole returns the series as a histogram.
func (h *Histogram) whole() prometheus.Histogram {
	h.mu.Lock()
	defer h.mu.Unlock()
	if full := h.full.Load(); full != nil {
		return *full
	}
	return h.histogram()
}
