package crd

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/object/schema"
)

// Metrics measure the expressions of schemas, ratcheting updates and conversion webhooks.
type Metrics struct {
	clock                       clock.PassiveClock
	compilation, evaluation     prometheus.Histogram
	ratcheting                  prometheus.Histogram
	requests                    *series.CounterVec
	requestSeconds, conversions *histogram.Vec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer, c clock.PassiveClock) *Metrics {
	m := &Metrics{
		clock: c,
		compilation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "apiserver_cel_compilation_duration_seconds", Help: "CEL compilation time in seconds.", Buckets: prometheus.DefBuckets}),
		evaluation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "apiserver_cel_evaluation_duration_seconds", Help: "CEL evaluation time in seconds.", Buckets: prometheus.DefBuckets}),
		ratcheting: prometheus.NewHistogram(histogram.Opts(r, prometheus.HistogramOpts{
			Name:    "apiextensions_apiserver_validation_ratcheting_seconds",
			Help:    "Time for comparison of old to new for the purposes of CRDValidationRatcheting during an UPDATE in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10)})),
		requests: series.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_conversion_webhook_request_total",
			Help: "Counter for conversion webhook requests with success/failure and failure error type",
		}, []string{"result", "failure_type"}),
		requestSeconds: histogram.NewVec(prometheus.HistogramOpts{
			Name: "apiserver_conversion_webhook_duration_seconds", Help: "Conversion webhook request latency",
			Buckets: []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60},
		}, []string{"result", "failure_type"}),
		conversions: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{
			Name: "apiserver_crd_conversion_webhook_duration_seconds", Help: "CRD webhook conversion duration in seconds",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}), []string{"crd_name", "from_version", "to_version", "succeeded"}),
	}
	r.MustRegister(m.compilation, m.evaluation, m.ratcheting, m.requests, m.requestSeconds, m.conversions)
	return m
}

// timing returns the callbacks with which schemas report their expressions' times.
func (m *Metrics) timing() schema.Timing {
	of := func(h prometheus.Histogram) func() func() {
		return func() func() {
			began := m.clock.Now()
			return func() { h.Observe(m.clock.Since(began).Seconds()) }
		}
	}
	return schema.Timing{Compilation: of(m.compilation), Evaluation: of(m.evaluation),
		Ratcheting: func(took time.Duration) { m.ratcheting.Observe(took.Seconds()) }, Now: m.clock.Now}
}

// Reasons of failed conversions, as in metrics.
const (
	callFailed    = "conversion_webhook_call_failure"
	malformed     = "conversion_webhook_malformed_response_failure"
	partial       = "conversion_webhook_partial_response_failure"
	invalidObject = "conversion_webhook_invalid_converted_object_failure"
)

// converted records a call of a definition's webhook; failure is "" if it succeeded.
func (m *Metrics) converted(crd, from, to, failure string, took time.Duration) {
	result := "success"
	if failure != "" {
		result = "failure"
	}
	m.requests.WithLabelValues(result, failure).Inc()
	m.requestSeconds.WithLabelValues(result, failure).Observe(took.Seconds())
	m.conversions.WithLabelValues(crd, from, to, strconv.FormatBool(failure == "")).Observe(took.Seconds())
}
