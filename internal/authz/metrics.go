package authz

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what authorizers decide.
type Metrics struct{ decisions *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_authorization_decisions_total",
		Help: "Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
	}, []string{"type", "name", "decision"})}
	r.MustRegister(m.decisions)
	return m
}

// Counted is an authorizer of a type (as --authorization-mode has it) and name
// whose decisions are counted.
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
