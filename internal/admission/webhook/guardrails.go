package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/admission/measure"
	"github.com/kanzen-io/kanzen/internal/request"
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
	slow    *prometheus.CounterVec
	open    *prometheus.GaugeVec
}

// NewGuardrails makes guardrails. A webhook that has failed for as long as patience is only probed; 0: never.
func NewGuardrails(warn bool, patience time.Duration, clk clock.PassiveClock, r prometheus.Registerer) *Guardrails {
	g := &Guardrails{Warn: warn,
		slow: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kanzen_admission_webhook_slow_total", Help: "Writes that a webhook has delayed for more than a second."}, []string{"name", "type"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kanzen_admission_webhook_breaker_open", Help: "1 for each webhook that has failed for so long that it is only probed."}, []string{"configuration", "name"}),
	}
	if patience > 0 {
		g.breaker = &breaker{patience: patience, clock: clk, failing: map[string]*failing{}, open: g.open}
	}
	r.MustRegister(g.slow, g.open)
	return g
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
		s.Result, s.Ignored = request.StepFailed, h.ignore || h.shadow
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

// quietly returns a context for the call of a webhook: that of a shadowed one has no warnings for the client.
func (h *hook) quietly(ctx context.Context) context.Context {
	if h.shadow {
		ctx, _ = request.WithWarnings(ctx)
	}
	return ctx
}

// probeEvery is the interval at which a webhook behind an open breaker is asked nevertheless.
const probeEvery = 10 * time.Second

// maxFailing bounds the webhooks whose failures are followed.
const maxFailing = 1000

// breaker knows the webhooks that fail.
type breaker struct {
	patience time.Duration
	clock    clock.PassiveClock
	open     *prometheus.GaugeVec
	mu       sync.Mutex
	failing  map[string]*failing // by the webhook's id; guarded by mu
}

// failing is a webhook that has not answered since a time.
type failing struct {
	since, probed time.Time
	calls         int
}

// minFailures is how many calls must have failed, however long ago the first was.
const minFailures = 3

// errOpen is the failure of a call that was not made.
var errOpen = errors.New("the webhook has failed for long and is not waited for")

// post calls a webhook, unless its breaker is open.
func (d *Deps) post(ctx context.Context, h *hook, c *client, body []byte) ([]byte, error) {
	if d.Guardrails == nil || d.Guardrails.breaker == nil {
		return c.post(ctx, body)
	}
	b := d.Guardrails.breaker
	if !b.lets(h.id) {
		return nil, errOpen
	}
	got, err := c.post(ctx, body)
	if !errors.Is(err, context.Canceled) { // the client has gone: that says nothing about the webhook
		b.saw(h, err == nil)
	}
	return got, err
}

// lets says that a webhook is to be called.
func (b *breaker) lets(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.failing[id]
	now := b.clock.Now()
	if f == nil || f.calls < minFailures || now.Sub(f.since) < b.patience || now.Sub(f.probed) >= probeEvery {
		if f != nil {
			f.probed = now
		}
		return true
	}
	return false
}

// saw records whether a webhook has answered.
func (b *breaker) saw(h *hook, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.failing[h.id]
	switch {
	case ok:
		if f != nil {
			delete(b.failing, h.id)
			b.open.DeleteLabelValues(h.configuration, h.name)
		}
		return
	case f == nil && len(b.failing) >= maxFailing:
		return
	case f == nil:
		f = &failing{since: b.clock.Now()}
		b.failing[h.id] = f
	}
	f.calls++
	if f.calls >= minFailures && b.clock.Since(f.since) >= b.patience {
		b.open.WithLabelValues(h.configuration, h.name).Set(1)
	}
}
