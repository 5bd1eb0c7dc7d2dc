package queue

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Metrics are the metrics of a server's queues, under the names that all of Kubernetes has for them.
type Metrics struct {
	depth               *series.GaugeVec
	adds, retries       *series.CounterVec
	latency, work       *histogram.Vec
	unfinished, longest *prometheus.Desc
	clock               clock.PassiveClock

	mu     sync.Mutex
	begun  map[string]map[string]time.Time // by queue and name: when its work began; guarded by mu
	queues map[*Queue]bool                 // those that are not shut down; guarded by mu
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(r prometheus.Registerer, clk clock.PassiveClock) *Metrics {
	labels := []string{"name"}
	buckets := prometheus.ExponentialBuckets(10e-9, 10, 12)
	m := &Metrics{
		clock: clk, begun: map[string]map[string]time.Time{}, queues: map[*Queue]bool{},
		depth:   series.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "Names that wait in the queue."}, labels),
		adds:    series.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_adds_total", Help: "Names put into the queue."}, labels),
		retries: series.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_retries_total", Help: "Names put into the queue again after a failure."}, labels),
		latency: histogram.NewVec(prometheus.HistogramOpts{Name: "workqueue_queue_duration_seconds", Help: "How long names waited in the queue.", Buckets: buckets}, labels),
		work:    histogram.NewVec(prometheus.HistogramOpts{Name: "workqueue_work_duration_seconds", Help: "How long the work on a name took.", Buckets: buckets}, labels),

		unfinished: prometheus.NewDesc("workqueue_unfinished_work_seconds", "How long the work that is under way has taken, in sum.", labels, nil),
		longest:    prometheus.NewDesc("workqueue_longest_running_processor_seconds", "How long the longest work that is under way has taken.", labels, nil),
	}
	r.MustRegister(m.depth, m.adds, m.retries, m.latency, m.work, m)
	return m
}

// Describe is part of prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.unfinished
	ch <- m.longest
}

// Collect is part of prometheus.Collector: it tells of the work that is under way.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for queue, begun := range m.begun {
		sum, longest := time.Duration(0), time.Duration(0)
		for _, at := range begun {
			d := m.clock.Since(at)
			sum, longest = sum+d, max(longest, d)
		}
		ch <- prometheus.MustNewConstMetric(m.unfinished, prometheus.GaugeValue, sum.Seconds(), queue)
		ch <- prometheus.MustNewConstMetric(m.longest, prometheus.GaugeValue, longest.Seconds(), queue)
	}
}

// measured are the metrics of one queue. Those of the zero value are not kept, and it asks no clock.
type measured struct {
	clock         clock.PassiveClock
	depth         prometheus.Gauge
	adds, retries prometheus.Counter
	latency, work prometheus.Observer
}

// of returns the metrics of a queue. They exist from the start.
func (m *Metrics) of(queue string) measured {
	if m == nil {
		return measured{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun[queue] == nil {
		m.begun[queue] = map[string]time.Time{}
	}
	return measured{m.clock, m.depth.WithLabelValues(queue), m.adds.WithLabelValues(queue), m.retries.WithLabelValues(queue),
		m.latency.WithLabelValues(queue), m.work.WithLabelValues(queue)}
}

// enters counts a name that is added.
func (m *measured) enters() {
	if m.depth != nil {
		m.depth.Inc()
		m.adds.Inc()
	}
}

// leaves counts a name that is taken, and was added at a time.
func (m *measured) leaves(added time.Time) {
	if m.depth != nil {
		m.depth.Dec()
		m.latency.Observe(m.clock.Since(added).Seconds())
	}
}

// now is when a name is added.
func (m *measured) now() time.Time {
	if m.clock == nil {
		return time.Time{}
	}
	return m.clock.Now()
}

// worked counts work that has ended.
func (m *measured) worked(took time.Duration) {
	if m.work != nil {
		m.work.Observe(took.Seconds())
	}
}

// retried counts a name that is added later, or again.
func (m *measured) retried() {
	if m.retries != nil {
		m.retries.Inc()
	}
}

// begin notes that work on a name begins.
func (m *Metrics) begin(queue, name string, at time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun[queue][name] = at
}

// end notes that work on a name has ended.
func (m *Metrics) end(queue, name string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.begun[queue], name)
}

// State is what a queue does now, and what it did since the server started.
type State struct {
	Name                              string
	Waiting, Working, Added, Retries  int64
	MeanWait, MeanWork, LongestActive time.Duration
}

// States returns the state of all queues.
func (m *Metrics) States() []State {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]State, 0, len(m.begun))
	for queue, begun := range m.begun {
		s := State{Name: queue, Working: int64(len(begun))}
		for _, at := range begun {
			s.LongestActive = max(s.LongestActive, m.clock.Since(at))
		}
		s.Waiting = int64(written(m.depth.WithLabelValues(queue)).GetGauge().GetValue())
		s.Added = int64(written(m.adds.WithLabelValues(queue)).GetCounter().GetValue())
		s.Retries = int64(written(m.retries.WithLabelValues(queue)).GetCounter().GetValue())
		s.MeanWait, s.MeanWork = mean(m.latency.WithLabelValues(queue)), mean(m.work.WithLabelValues(queue))
		out = append(out, s)
	}
	return out
}

// Due returns when the next name in a queue is due: now if one waits or is worked on, zero if there is none.
func (m *Metrics) Due() time.Time {
	m.mu.Lock()
	queues := slices.Collect(maps.Keys(m.queues))
	m.mu.Unlock()
	var due time.Time
	for _, q := range queues {
		if at := q.due(); !at.IsZero() && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	return due
}

// made and ended keep the queues that are there.
func (m *Metrics) made(q *Queue) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queues[q] = true
}

func (m *Metrics) ended(q *Queue) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.queues, q)
}

func written(metric any) *dto.Metric {
	d := &dto.Metric{}
	if m, ok := metric.(prometheus.Metric); ok {
		_ = m.Write(d) // it fails for metrics with faulty labels only
	}
	return d
}

func mean(o prometheus.Observer) time.Duration {
	h := written(o).GetHistogram()
	if h.GetSampleCount() == 0 {
		return 0
	}
	return time.Duration(h.GetSampleSum() / float64(h.GetSampleCount()) * float64(time.Second))
}
