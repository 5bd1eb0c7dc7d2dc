package series

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// few is how many observations a summary keeps as they are.
const few = 32

// Summary observes values. It keeps the first ones as they are, and becomes a summary of the library by the next one.
type Summary struct {
	Of
	kind *summaryKind

	mu   sync.Mutex
	few  []observation
	full prometheus.Summary // nil: there are few
}

type observation struct {
	at    int64 // in nanoseconds since 1970
	value float64
}

// summaryKind is what all series of a summary share.
type summaryKind struct {
	opts   prometheus.SummaryOpts
	labels []string
}

// SummaryVec is like a prometheus.SummaryVec.
type SummaryVec = Set[*Summary]

// NewSummaryVec makes a summary with labels.
func NewSummaryVec(o prometheus.SummaryOpts, labels []string) *SummaryVec {
	kind := &summaryKind{o, labels}
	return NewSet(prometheus.Opts{Namespace: o.Namespace, Subsystem: o.Subsystem, Name: o.Name, Help: o.Help, ConstLabels: o.ConstLabels}, labels,
		func(of Of) *Summary { return &Summary{Of: of, kind: kind} })
}

// Observe is part of prometheus.Observer.
func (s *Summary) Observe(v float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full == nil && len(s.few) < few {
		s.few = append(s.few, observation{time.Now().UnixNano(), v})
		return
	}
	if s.full == nil {
		s.full = prometheus.NewSummaryVec(s.kind.opts, s.kind.labels).WithLabelValues(s.Values()...).(prometheus.Summary) // as ObserverVec documents
		for _, o := range s.few {
			s.full.Observe(o.value)
		}
		s.few = nil
	}
	s.full.Observe(v)
}

// Collect is part of prometheus.Collector.
func (s *Summary) Collect(ch chan<- prometheus.Metric) { ch <- s }

// Write is part of prometheus.Metric.
func (s *Summary) Write(out *dto.Metric) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		if err := s.full.Write(out); err != nil {
			return err
		}
	} else {
		out.Label, out.Summary = prometheus.MakeLabelPairs(s.desc, s.Values()), s.kind.of(s.few, time.Now())
	}
	out.Summary.CreatedTimestamp = timestamppb.New(s.Began())
	return nil
}

// of summarizes some observations. Quantiles are those of the ones that are not too old.
func (k *summaryKind) of(all []observation, now time.Time) *dto.Summary {
	count, sum := uint64(len(all)), 0.0
	var recent []float64
	for _, o := range all {
		sum += o.value
		if now.UnixNano()-o.at < int64(cmp.Or(k.opts.MaxAge, prometheus.DefMaxAge)) {
			recent = append(recent, o.value)
		}
	}
	slices.Sort(recent)
	out := &dto.Summary{SampleCount: &count, SampleSum: &sum}
	for quantile := range k.opts.Objectives {
		v := math.NaN()
		if len(recent) > 0 {
			v = recent[max(int(math.Ceil(float64(len(recent))*quantile))-1, 0)]
		}
		out.Quantile = append(out.Quantile, &dto.Quantile{Quantile: &quantile, Value: &v})
	}
	slices.SortFunc(out.Quantile, func(a, b *dto.Quantile) int { return cmp.Compare(a.GetQuantile(), b.GetQuantile()) })
	return out
}
