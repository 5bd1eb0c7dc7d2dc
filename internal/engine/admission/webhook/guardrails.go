package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/guard"
	"github.com/kanzen-io/kanzen/internal/base/series"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/wire/remote"
)

// ModeAnnotation on a configuration with the value Shadow has its webhooks asked without consequence: neither a patch
// nor a refusal nor a failure counts. What they would have done is in the flight recorder and in metrics.
const ModeAnnotation = "admission.kanzen.io/mode"

// Shadow is the value of ModeAnnotation.
const Shadow = "shadow"

// slowFrom is how long a webhook may delay a write until the client is told.
const slowFrom = time.Second

// Guardrails are what this server does about bad webhooks beyond kube-apiserver.
type Guardrails struct {
	// Warn tells clients which webhook has delayed their write.
	Warn    bool
	breaker *breaker // nil: every webhook is waited for
	slow    *series.CounterVec
	open    *series.GaugeVec
}

// GuardrailsConfig has what guardrails need. All fields but the first two are required.
type GuardrailsConfig struct {
	// Warn tells clients which webhook has delayed their write.
	Warn bool
	// Patience is for how long a webhook must have failed until its breaker may open; 0: there are no breakers.
	Patience time.Duration
	Clock    clock.WithTicker
	Guard    *guard.Guard
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// NewGuardrails makes guardrails. With a patience, Run must run.
func NewGuardrails(c GuardrailsConfig) *Guardrails {
	g := &Guardrails{Warn: c.Warn,
		slow: series.NewCounterVec(prometheus.CounterOpts{Name: "kanzen_admission_webhook_slow_total", Help: "Writes that a webhook has delayed for more than a second."}, []string{"name", "type"}),
		open: series.NewGaugeVec(prometheus.GaugeOpts{Name: "kanzen_admission_webhook_breaker_open", Help: "1 for each webhook whose breaker is open: writes do not wait for it."}, []string{"configuration", "name"}),
	}
	if c.Patience > 0 {
		g.breaker = &breaker{patience: c.Patience, clock: c.Clock, guard: c.Guard, log: c.Log, open: g.open, suspects: map[*hook]*suspect{}}
	}
	c.Registry.MustRegister(g.slow, g.open)
	return g
}

// Run opens and closes breakers until ctx ends. It returns at once if there are none.
func (g *Guardrails) Run(ctx context.Context) {
	if g.breaker != nil {
		g.breaker.run(ctx)
	}
}

// noted reports a call to the flight recorder, and to the client if it took long.
func (d *Deps) noted(ctx context.Context, h *hook, p measure.Phase, began time.Time, took time.Duration, changed bool, err error) {
	s := request.Step{Kind: request.StepWebhook, Name: h.configuration + "/" + h.name, Phase: "validate", Began: began, Took: took,
		Result: request.StepAllowed, Changed: changed, Ignored: h.shadow}
	if p == measure.Admit {
		s.Phase = "admit"
	}
	var failed *callError
	switch {
	case err == nil:
	case errors.As(err, &failed):
		s.Result, s.Reason, s.Ignored = request.StepFailed, reasonOf(failed.reason), h.ignore || h.shadow
		if errors.Is(err, context.DeadlineExceeded) {
			s.Result = request.StepTimedOut
		}
	default:
		s.Result = request.StepRefused
	}
	request.AddStep(ctx, s)
	if took < slowFrom || d.Guardrails == nil {
		return
	}
	d.Guardrails.slow.WithLabelValues(h.name, string(p)).Inc()
	if d.Guardrails.Warn {
		request.AddWarning(ctx, fmt.Sprintf("admission webhook %q (%s) delayed this request by %v", h.name, h.configuration, took.Round(10*time.Millisecond)))
	}
}

// reasonOf classifies the failure of a call.
func reasonOf(err error) string {
	if errors.Is(err, errOpen) {
		return "NotWaitedFor"
	}
	return remote.Reason(err)
}

// quietly returns a context for the call of a webhook: that of a shadowed one has no warnings for the client.
func (h *hook) quietly(ctx context.Context) context.Context {
	if h.shadow {
		ctx, _ = request.WithWarnings(ctx)
	}
	return ctx
}
