package queue

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
)

// Metrics are the metrics of a server's queues, under the names that all of Kubernetes has for them.
type Metrics struct {
	depth               *prometheus.GaugeVec
	adds, retries       *prometheus.CounterVec
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
		depth:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "Names that wait in the queue."}, labels),
		adds:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_adds_total", Help: "Names put into the queue."}, labels),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_retries_total", Help: "Names put into the queue again after a failure."}, labels),
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

// of adds what belongs to the metrics to the settings of a queue. taken counts the names that are taken out of it.
func (m *Metrics) of(c workqueue.TypedQueueConfig[string], taken *atomic.Int64) workqueue.TypedQueueConfig[string] {
	if m == nil {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun[c.Name] == nil {
		m.begun[c.Name] = map[string]time.Time{}
	}
	m.retries.WithLabelValues(c.Name) // it exists from the start, like the others
	c.MetricsProvider, c.Clock = provider{m, taken}, still{c.Clock}
	return c
}

// begin notes that work on a name begins.
func (m *Metrics) begin(queue, name string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun[queue][name] = m.clock.Now()
}

// retried counts a name that is put into a queue again.
func (m *Metrics) retried(queue string) {
	if m != nil {
		m.retries.WithLabelValues(queue).Inc()
	}
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

// provider makes the metrics of one queue.
type provider struct {
	*Metrics
	taken *atomic.Int64
}

func (p provider) NewDepthMetric(queue string) workqueue.GaugeMetric {
	return depth{p.depth.WithLabelValues(queue), p.taken}
}

// depth is the gauge of names that wait. The queue decrements it when a name is taken, before anybody sees that it is gone.
type depth struct {
	prometheus.Gauge
	taken *atomic.Int64
}

// Dec is part of workqueue.GaugeMetric.
func (d depth) Dec() {
	d.taken.Add(1)
	d.Gauge.Dec()
}

func (p provider) NewAddsMetric(queue string) workqueue.CounterMetric {
	return p.adds.WithLabelValues(queue)
}

func (p provider) NewLatencyMetric(queue string) workqueue.HistogramMetric {
	return p.latency.WithLabelValues(queue)
}

func (p provider) NewWorkDurationMetric(queue string) workqueue.HistogramMetric {
	return p.work.WithLabelValues(queue)
}

func (p provider) NewRetriesMetric(queue string) workqueue.CounterMetric {
	return p.retries.WithLabelValues(queue)
}

func (p provider) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return unset{}
}

func (p provider) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return unset{}
}

// unset stands for the gauges that Collect tells instead.
type unset struct{}

func (unset) Set(float64) {}

// still is a clock whose short tickers do not tick. A queue with metrics has one of half a second to set the gauges of
// unfinished work: dozens of queues would wake an idle process all the time.
type still struct{ clock.WithTicker }

// NewTicker is part of clock.WithTicker.
func (s still) NewTicker(d time.Duration) clock.Ticker {
	if d < time.Second {
		return noTicks{}
	}
	return s.WithTicker.NewTicker(d)
}

type noTicks struct{}

func (noTicks) C() <-chan time.Time { return nil }
func (noTicks) Stop()               {}

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
