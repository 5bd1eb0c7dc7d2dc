package audit

import (
	"github.com/prometheus/client_golang/prometheus"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Metrics count events and their outcomes. A nil Metrics counts nothing.
type Metrics struct {
	events, rejections prometheus.Counter
	errors             *series.CounterVec
	levels             [len(levelNames)]prometheus.Counter
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(register func(...prometheus.Collector)) *Metrics {
	const subsystem = "apiserver_audit"
	levels := series.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: "level_total",
		Help: "Requests by the audit level that the policy sets for them."}, []string{"level"})
	m := &Metrics{
		events: prometheus.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: "event_total",
			Help: "Audit events made and handed to the backends."}),
		rejections: prometheus.NewCounter(prometheus.CounterOpts{Subsystem: subsystem, Name: "requests_rejected_total",
			Help: "Requests refused because their audit event could not be kept."}),
		errors: series.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: "error_total",
			Help: "Audit events that were lost, by the part that lost them."}, []string{"plugin"}),
	}
	for n, name := range levelNames {
		m.levels[n] = levels.WithLabelValues(string(name))
	}
	register(m.events, m.rejections, m.errors, levels)
	return m
}

func (m *Metrics) event() {
	if m != nil {
		m.events.Inc()
	}
}

func (m *Metrics) rejected() {
	if m != nil {
		m.rejections.Inc()
	}
}

func (m *Metrics) level(l request.AuditLevel) {
	if m != nil {
		m.levels[l].Inc()
	}
}

func (m *Metrics) lost(plugin string, events []*auditv1.Event) {
	if m != nil {
		m.errors.WithLabelValues(plugin).Add(float64(len(events)))
	}
}
