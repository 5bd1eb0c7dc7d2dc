package egress

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// metrics measure dials through proxies.
type metrics struct {
	starts, failures *series.CounterVec
	seconds          *histogram.Vec
}

func newMetrics(r prometheus.Registerer) *metrics {
	const prefix = "apiserver_egress_dialer_"
	m := &metrics{
		starts: series.NewCounterVec(prometheus.CounterOpts{Name: prefix + "dial_start_total",
			Help: "Dial starts, labeled by the protocol (http-connect or grpc) and transport (tcp or uds)."}, []string{"protocol", "transport"}),
		failures: series.NewCounterVec(prometheus.CounterOpts{Name: prefix + "dial_failure_count",
			Help: "Dial failure count, labeled by the protocol (http-connect or grpc), transport (tcp or uds), and stage (connect or proxy). " +
				"The stage indicates at which stage the dial failed"}, []string{"protocol", "transport", "stage"}),
		seconds: histogram.NewVec(prometheus.HistogramOpts{Name: prefix + "dial_duration_seconds",
			Help:    "Dial latency histogram in seconds, labeled by the protocol (http-connect or grpc), transport (tcp or uds)",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 2.5, 12.5}}, []string{"protocol", "transport"}),
	}
	r.MustRegister(m.starts, m.failures, m.seconds)
	return m
}

func (m *metrics) started(p *proxy) { m.starts.WithLabelValues(p.protocol, p.transport).Inc() }

func (m *metrics) failed(p *proxy, stage string) {
	m.failures.WithLabelValues(p.protocol, p.transport, stage).Inc()
}

func (m *metrics) took(p *proxy, d time.Duration) {
	m.seconds.WithLabelValues(p.protocol, p.transport).Observe(d.Seconds())
}
