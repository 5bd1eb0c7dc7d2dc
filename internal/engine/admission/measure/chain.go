package measure

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/base/histogram"
	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/request"
)

// Chain is a chain of plugins with metrics, for the chain and for each plugin.
type Chain struct {
	plugins admission.Chain
	m       *Metrics
	clock   clock.PassiveClock
}

// Chain returns a chain with metrics.
func (m *Metrics) Chain(c admission.Chain, clock clock.PassiveClock) *Chain {
	out := &Chain{m: m, clock: clock}
	for _, p := range c {
		if p.Mutator != nil {
			p.Mutator = admission.Func(out.timed(p.Name, Admit, p.Mutator.Admit))
		}
		if p.Validator != nil {
			p.Validator = admission.Func(out.timed(p.Name, Validate, p.Validator.Validate))
		}
		out.plugins = append(out.plugins, p)
	}
	return out
}

// Admit runs the mutating plugins.
func (c *Chain) Admit(ctx context.Context, a *admission.Attributes) error {
	began := c.clock.Now()
	err := c.plugins.Admit(ctx, a)
	c.m.Step(Admit, a.Operation, err != nil, c.clock.Since(began))
	return err
}

// Validate runs the validating plugins.
func (c *Chain) Validate(ctx context.Context, a *admission.Attributes) error {
	began := c.clock.Now()
	err := c.plugins.Validate(ctx, a)
	c.m.Step(Validate, a.Operation, err != nil, c.clock.Since(began))
	return err
}

// operations are those that plugins are asked about.
var operations = [...]admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}

// timed measures a part of a plugin. A write passes about forty of them, and
// nearly all accept it, so the metric of accepted writes is looked up once.
func (c *Chain) timed(name string, p Phase, f func(context.Context, *admission.Attributes) error) func(context.Context, *admission.Attributes) error {
	var accepted [len(operations)]atomic.Pointer[histogram.Histogram]
	return func(ctx context.Context, a *admission.Attributes) error {
		began := c.clock.Now()
		err := f(ctx, a)
		took := c.clock.Since(began)
		if err != nil {
			request.AddStep(ctx, request.Step{Kind: request.StepPlugin, Name: name, Phase: string(p), Began: began, Took: took, Result: request.StepRefused})
			c.m.plugin(name, p, a.Operation, took)
			return err
		}
		if took >= request.MinStep {
			request.AddStep(ctx, request.Step{Kind: request.StepPlugin, Name: name, Phase: string(p), Began: began, Took: took, Result: request.StepAllowed})
		}
		n := slices.Index(operations[:], a.Operation)
		if n < 0 {
			return nil
		}
		observer := accepted[n].Load()
		if observer == nil {
			observer = c.m.plugins.WithLabelValues(name, string(p), string(a.Operation), "false")
			accepted[n].Store(observer)
		}
		observer.Observe(took.Seconds())
		return nil
	}
}

// plugin measures a plugin that refused a write.
func (m *Metrics) plugin(name string, p Phase, op admission.Operation, took time.Duration) {
	m.plugins.WithLabelValues(name, string(p), string(op), "true").Observe(took.Seconds())
}
