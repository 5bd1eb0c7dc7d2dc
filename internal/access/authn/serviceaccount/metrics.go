package serviceaccount

import "github.com/prometheus/client_golang/prometheus"

// Metrics count uses of tokens that clients should replace. A nil *Metrics counts nothing.
type Metrics struct {
	legacy, manual, auto, invalid, stale, valid prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "serviceaccount_" + name, Help: help})
		r.MustRegister(c)
		return c
	}
	return &Metrics{
		legacy:  counter("legacy_tokens_total", "Cumulative legacy service account tokens used"),
		manual:  counter("legacy_manual_token_uses_total", "Cumulative manually created legacy tokens used"),
		auto:    counter("legacy_auto_token_uses_total", "Cumulative auto-generated legacy tokens used"),
		invalid: counter("invalid_legacy_auto_token_uses_total", "Cumulative invalid auto-generated legacy tokens used"),
		stale:   counter("stale_tokens_total", "Cumulative stale projected service account tokens used"),
		valid:   counter("valid_tokens_total", "Cumulative valid projected service account tokens used"),
	}
}

// count counts one use, in the counter that of returns.
func (m *Metrics) count(of func(*Metrics) prometheus.Counter) {
	if m != nil {
		of(m).Inc()
	}
}
