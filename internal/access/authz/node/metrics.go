package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
)

// Metrics measure changes of a Graph.
type Metrics struct {
	seconds *histogram.Vec
	clock   clock.PassiveClock
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer, clk clock.PassiveClock) *Metrics {
	m := &Metrics{clock: clk, seconds: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: "node_authorizer_graph_actions_duration_seconds",
		Help: "How long changes of the graph took.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12)}), []string{"operation"})}
	r.MustRegister(m.seconds)
	return m
}

// Measure calls change and records its duration.
func (m *Metrics) Measure(operation string, change func()) {
	began := m.clock.Now()
	change()
	m.seconds.WithLabelValues(operation).Observe(m.clock.Since(began).Seconds())
}
