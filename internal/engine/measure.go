package engine

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Metrics are the metrics of watches, under kube-apiserver's names.
type Metrics struct {
	// serves reports whether a resource is still served; one that is not has no series.
	serves        func(schema.GroupVersionResource) bool
	events, sizes *prometheus.Desc
	lists         *histogram.Vec
	shards        *series.GaugeVec
	outside       *series.CounterVec

	mu sync.Mutex
	// watched are the counts of resources that have been watched; guarded by mu.
	watched map[schema.GroupVersionResource]*watchCounts
}

// NewMetrics makes the metrics and registers them. serves reports whether a resource is still served.
func NewMetrics(r prometheus.Registerer, serves func(schema.GroupVersionResource) bool) *Metrics {
	labels := []string{"group", "version", "resource"}
	m := &Metrics{
		serves:  serves,
		watched: map[schema.GroupVersionResource]*watchCounts{},
		events:  prometheus.NewDesc("apiserver_watch_events_total", "Events sent to watchers.", labels, nil),
		sizes:   prometheus.NewDesc("apiserver_watch_events_sizes", "Bytes of the events sent to watchers.", labels, nil),
		lists: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: "apiserver_watch_list_duration_seconds",
			Help:    "How long it took until a watch had sent the objects that existed when it began.",
			Buckets: []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60}}), append(labels, "scope")),
		shards: series.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_watch_shards_total",
			Help: "Watches of a shard that are open."}, []string{"group", "resource"}),
		outside: series.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_watch_filtered_events_total",
			Help: "Objects that were not sent to watches of a shard because they are in another."}, []string{"group", "resource"}),
	}
	r.MustRegister(m)
	return m
}

// Describe is part of prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.events
	ch <- m.sizes
	m.lists.Describe(ch)
	m.shards.Describe(ch)
	m.outside.Describe(ch)
}

// Collect is part of prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for of, w := range m.watched {
		if !m.serves(of) {
			delete(m.watched, of)
			m.lists.DeletePartialMatch(prometheus.Labels{"group": of.Group, "version": of.Version, "resource": of.Resource})
			m.shards.DeleteLabelValues(of.Group, of.Resource)
			m.outside.DeleteLabelValues(of.Group, of.Resource)
			continue
		}
		buckets, n := map[float64]uint64{}, uint64(0)
		for i, limit := range eventSizes {
			n += w.buckets[i].Load()
			buckets[limit] = n
		}
		n += w.buckets[len(eventSizes)].Load()
		ch <- prometheus.MustNewConstMetric(m.events, prometheus.CounterValue, float64(n), of.Group, of.Version, of.Resource)
		ch <- prometheus.MustNewConstHistogram(m.sizes, n, float64(w.bytes.Load()), buckets, of.Group, of.Version, of.Resource)
	}
	m.lists.Collect(ch)
	m.shards.Collect(ch)
	m.outside.Collect(ch)
}

// eventSizes are the upper limits of the buckets of event sizes. They do not change.
var eventSizes = [...]float64{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10}

// watchCounts are the events sent of one resource.
type watchCounts struct {
	buckets [len(eventSizes) + 1]atomic.Uint64
	bytes   atomic.Uint64
}

// sentEvents are the events that one watch has sent since it last reported them. Thousands of watches send the same
// event at the same time, so they share no counter until they flush.
type sentEvents struct {
	buckets [len(eventSizes) + 1]uint32
	bytes   uint64
	events  int64
}

// add counts an event.
func (e *sentEvents) add(size int) {
	e.buckets[sort.SearchFloat64s(eventSizes[:], float64(size))]++
	e.bytes += uint64(size)
	e.events++
}

// report adds the events to the counts of their resource, and returns how many they were and their bytes.
func (e *sentEvents) report(to *watchCounts) (events, bytes int64) {
	events, bytes = e.events, int64(e.bytes)
	if events == 0 {
		return 0, 0
	}
	if to != nil {
		for i, n := range e.buckets {
			if n > 0 {
				to.buckets[i].Add(uint64(n))
			}
		}
		to.bytes.Add(e.bytes)
	}
	*e = sentEvents{}
	return events, bytes
}

// of returns the counts of a resource.
func (m *Metrics) of(gvr schema.GroupVersionResource) *watchCounts {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.watched[gvr]
	if w == nil {
		w = &watchCounts{}
		m.watched[gvr] = w
	}
	return w
}

// listed measures a watch that has sent its first objects.
func (m *Metrics) listed(gvr schema.GroupVersionResource, scope string, took time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watched[gvr] != nil { // else it is gone
		m.lists.WithLabelValues(gvr.Group, gvr.Version, gvr.Resource, scope).Observe(took.Seconds())
	}
}

// sharded counts a watch of a shard, until the func that it returns is called, and the items of other shards.
func (m *Metrics) sharded(gvr schema.GroupVersionResource, s *shard) (ended func()) {
	if m == nil {
		return func() {}
	}
	watches := m.shards.WithLabelValues(gvr.Group, gvr.Resource)
	watches.Inc()
	s.outside = m.outside.WithLabelValues(gvr.Group, gvr.Resource).Inc
	return watches.Dec
}

// scope is what a list is about, as metrics spell it.
func (s *watchStream) scope() string {
	switch {
	case s.exact():
		return "resource"
	case s.namespace != "":
		return "namespace"
	}
	return "cluster"
}
