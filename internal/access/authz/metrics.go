package authz

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Metrics count the decisions of authorizers.
type Metrics struct{ decisions *series.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{decisions: series.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_authorization_decisions_total",
		Help: "Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
	}, []string{"type", "name", "decision"})}
	r.MustRegister(m.decisions)
	return m
}

// Counted returns a with its decisions counted, under its type (as in --authorization-mode) and name.
func (m *Metrics) Counted(kind, name string, a Authorizer) Authorizer {
	return &counted{
		Authorizer: a,
		allowed:    m.decisions.WithLabelValues(kind, name, "allowed"),
		denied:     m.decisions.WithLabelValues(kind, name, "denied"),
	}
}

type counted struct {
	Authorizer
	allowed, denied prometheus.Counter
}

func (c *counted) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	decision, reason, err := c.Authorizer.Authorize(ctx, a)
	switch decision {
	case Allow:
		c.allowed.Inc()
	case Deny:
		c.denied.Inc()
	}
	return decision, reason, err
}

// Measured returns a with metrics of its decisions and latency.
func Measured(a Authorizer, r prometheus.Registerer, clk clock.PassiveClock) Authorizer {
	m := &measured{
		Authorizer: a, clock: clk,
		attempts: series.NewCounterVec(prometheus.CounterOpts{Name: "authorization_attempts_total",
			Help: "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'."}, []string{"result"}),
		seconds: histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Name: "authorization_duration_seconds",
			Help: "Authorization duration in seconds broken out by result.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}), []string{"result"}),
	}
	r.MustRegister(m.attempts, m.seconds)
	m.allowed = sync.OnceValue(func() outcome { return m.of("allowed") })
	return m
}

// outcome is the metrics of one result.
type outcome struct {
	attempts prometheus.Counter
	seconds  prometheus.Observer
}

func (m *measured) of(result string) outcome {
	return outcome{m.attempts.WithLabelValues(result), m.seconds.WithLabelValues(result)}
}

type measured struct {
	Authorizer
	clock    clock.PassiveClock
	attempts *series.CounterVec
	seconds  *histogram.Vec
	allowed  func() outcome // looked up once: it is of nearly every request
}

func (m *measured) Authorize(ctx context.Context, a *Attributes) (Decision, string, error) {
	began := m.clock.Now()
	decision, reason, err := m.Authorizer.Authorize(ctx, a)
	var of outcome
	switch {
	case err != nil:
		of = m.of("error")
	case decision == Allow:
		of = m.allowed()
	case decision == Deny:
		of = m.of("denied")
	default:
		of = m.of("no-opinion")
	}
	of.attempts.Inc()
	of.seconds.Observe(m.clock.Since(began).Seconds())
	return decision, reason, err
}
