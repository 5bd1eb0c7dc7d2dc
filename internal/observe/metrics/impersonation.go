package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/base/series"
)

// Impersonation measures impersonation attempts and their authorization checks. It is the chain's observer.
type Impersonation struct {
	attempts, questions          *series.CounterVec
	attemptSeconds, askedSeconds *histogram.Vec
}

// NewImpersonation creates the metrics and registers them.
func NewImpersonation(r prometheus.Registerer) *Impersonation {
	const subsystem = "apiserver_impersonation"
	labels := []string{"mode", "decision"}
	counter := func(name, help string) *series.CounterVec {
		v := series.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
		r.MustRegister(v)
		return v
	}
	histogram := func(name, help string) *histogram.Vec {
		v := histogram.NewVec(histogram.Opts(r, prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}), labels)
		r.MustRegister(v)
		return v
	}
	return &Impersonation{
		attempts:       counter("attempts_total", "Attempts to act as another, by mode and decision."),
		attemptSeconds: histogram("attempts_duration_seconds", "How long it took to decide on them."),
		questions:      counter("authorization_attempts_total", "Questions to the authorizer about who may act as whom, by mode and decision."),
		askedSeconds:   histogram("authorization_attempts_duration_seconds", "How long the authorizer took for them."),
	}
}

// ImpersonationAttempted is part of chain.ImpersonationObserver.
func (m *Impersonation) ImpersonationAttempted(mode string, allowed bool, took time.Duration) {
	m.attempts.WithLabelValues(mode, decided(allowed)).Inc()
	m.attemptSeconds.WithLabelValues(mode, decided(allowed)).Observe(took.Seconds())
}

// ImpersonationAuthorized is part of chain.ImpersonationObserver.
func (m *Impersonation) ImpersonationAuthorized(mode string, allowed bool, took time.Duration) {
	m.questions.WithLabelValues(mode, decided(allowed)).Inc()
	m.askedSeconds.WithLabelValues(mode, decided(allowed)).Observe(took.Seconds())
}

func decided(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}
