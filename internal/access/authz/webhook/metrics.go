package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Metrics measure webhooks and their conditions.
type Metrics struct {
	evaluations, failOpen, exclusions, errors *series.CounterVec
	seconds, matchSeconds                     *histogram.Vec
}

// NewMetrics registers the metrics, which all webhooks of a server share.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *series.CounterVec {
		return series.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_authorization_" + name, Help: help}, labels)
	}
	m := &Metrics{
		evaluations: counter("webhook_evaluations_total", "Round-trips to authorization webhooks.", "name", "result"),
		failOpen:    counter("webhook_evaluations_fail_open_total", "NoOpinion results due to webhook timeout or error.", "name", "result"),
		exclusions: counter("match_condition_exclusions_total",
			"Total number of exclusions when an authorization webhook is skipped because match conditions exclude it.", "type", "name"),
		errors: counter("match_condition_evaluation_errors_total",
			"Total number of errors when an authorization webhook encounters a match condition error split by authorizer type and name.", "type", "name"),
		seconds: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{
			Name: "apiserver_authorization_webhook_duration_seconds", Help: "Request latency in seconds.", Buckets: prometheus.DefBuckets,
		}), []string{"name", "result"}),
		matchSeconds: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{
			Name:    "apiserver_authorization_match_condition_evaluation_seconds",
			Help:    "Authorization match condition evaluation time in seconds, split by authorizer type and name.",
			Buckets: []float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25},
		}), []string{"type", "name"}),
	}
	r.MustRegister(m.evaluations, m.failOpen, m.exclusions, m.errors, m.seconds, m.matchSeconds)
	return m
}

const kind = "Webhook"

func (m *Metrics) matched(name string, took time.Duration, matches bool, err error) {
	m.matchSeconds.WithLabelValues(kind, name).Observe(took.Seconds())
	switch {
	case err != nil:
		m.errors.WithLabelValues(kind, name).Inc()
	case !matches:
		m.exclusions.WithLabelValues(kind, name).Inc()
	}
}

func (m *Metrics) asked(name, result string, took time.Duration) {
	m.evaluations.WithLabelValues(name, result).Inc()
	m.seconds.WithLabelValues(name, result).Observe(took.Seconds())
}

func (m *Metrics) failedOpen(name, result string) { m.failOpen.WithLabelValues(name, result).Inc() }
