package histogram

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// few is how many observations a series keeps as they are.
const few = 16

// Vec is a prometheus.HistogramVec for histograms with many series, most of which hardly observe anything: those of the kinds of a control
// plane, say, of which a process can have hundreds. A series of that takes over 2 KB from its first observation on. Here one keeps its
// first observations as they are, and becomes a histogram by the next one. What is collected is the same.
type Vec struct {
	opts   prometheus.HistogramOpts
	labels []string
	desc   *prometheus.Desc

	mu     sync.RWMutex
	series map[string]*series // by the values of its labels, with a separator behind each; guarded by mu
}

// series has the observations of some labels.
type series struct {
	of     *Vec
	labels string // as in Vec.series
	began  time.Time
	full   atomic.Pointer[prometheus.Histogram] // nil: it has few

	mu  sync.Mutex
	few []float64 // until there is full; guarded by mu
}

// separator is in no label's value, as these are in UTF-8.
const separator = "\xff"

// NewVec makes a histogram with labels.
func NewVec(o prometheus.HistogramOpts, labels []string) *Vec {
	return &Vec{opts: o, labels: labels, series: map[string]*series{},
		desc: prometheus.NewDesc(prometheus.BuildFQName(o.Namespace, o.Subsystem, o.Name), o.Help, labels, o.ConstLabels)}
}

// WithLabelValues returns the series with these values, in the order of the labels. Like that of prometheus.HistogramVec, it panics if they
// are too few or too many, or not in UTF-8.
func (v *Vec) WithLabelValues(values ...string) prometheus.Observer {
	var room [160]byte
	key := room[:0]
	for _, value := range values {
		key = append(append(key, value...), separator...)
	}
	v.mu.RLock()
	s := v.series[string(key)]
	v.mu.RUnlock()
	if s != nil {
		return s
	}
	v.histogram(values)
	v.mu.Lock()
	defer v.mu.Unlock()
	if s = v.series[string(key)]; s == nil {
		s = &series{of: v, labels: string(key), began: time.Now()}
		v.series[s.labels] = s
	}
	return s
}

// histogram makes a histogram with these labels, or panics.
func (v *Vec) histogram(values []string) prometheus.Histogram {
	made := prometheus.NewHistogramVec(v.opts, v.labels).WithLabelValues(values...)
	return made.(prometheus.Histogram) // as ObserverVec documents
}

// Reset deletes all series.
func (v *Vec) Reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.series)
}

// DeletePartialMatch deletes the series with some labels, and returns how many there were.
func (v *Vec) DeletePartialMatch(labels prometheus.Labels) int {
	for name := range labels {
		if !slices.Contains(v.labels, name) {
			return 0
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	before := len(v.series)
	maps.DeleteFunc(v.series, func(_ string, s *series) bool {
		for n, value := range s.values() {
			if want, ok := labels[v.labels[n]]; ok && want != value {
				return false
			}
		}
		return true
	})
	return before - len(v.series)
}

// Describe is part of prometheus.Collector.
func (v *Vec) Describe(ch chan<- *prometheus.Desc) { ch <- v.desc }

// Collect is part of prometheus.Collector.
func (v *Vec) Collect(ch chan<- prometheus.Metric) {
	v.mu.RLock()
	all := slices.Collect(maps.Values(v.series))
	v.mu.RUnlock()
	for _, s := range all {
		ch <- s
	}
}

// values are those of the labels.
func (s *series) values() []string {
	if s.labels == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s.labels, separator), separator)
}

// Observe is part of prometheus.Observer.
func (s *series) Observe(value float64) {
	if full := s.full.Load(); full != nil {
		(*full).Observe(value)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if full := s.full.Load(); full != nil {
		(*full).Observe(value)
		return
	}
	s.few = append(s.few, value)
	if len(s.few) > few {
		full := s.histogram()
		s.full.Store(&full)
		s.few = nil
	}
}

// histogram makes the histogram of few observations. The caller holds mu.
func (s *series) histogram() prometheus.Histogram {
	h := s.of.histogram(s.values())
	for _, value := range s.few {
		h.Observe(value)
	}
	return h
}

// Desc is part of prometheus.Metric.
func (s *series) Desc() *prometheus.Desc { return s.of.desc }

// Write is part of prometheus.Metric.
func (s *series) Write(out *dto.Metric) error {
	err := s.whole().Write(out)
	if err == nil {
		out.Histogram.CreatedTimestamp = timestamppb.New(s.began)
	}
	return err
}

// whole returns the series as a histogram.
func (s *series) whole() prometheus.Histogram {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full := s.full.Load(); full != nil {
		return *full
	}
	return s.histogram()
}
