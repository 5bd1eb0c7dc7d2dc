package expr

import (
	"context"
	"time"

	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/object/cel"
)

// Conditions are the match conditions of a webhook or policy.
type Conditions struct {
	programs []*cel.Program
	ignore   bool // errors
	metrics  measure.Conditions
}

// NewConditions compiles match conditions. failure says whether an error
// refuses the write or means that the conditions are not met.
func NewConditions(c *cel.Compiler, conditions []admissionv1.MatchCondition, s cel.Scope, failure *admissionv1.FailurePolicyType, m measure.Conditions) *Conditions {
	out := &Conditions{ignore: failure != nil && *failure == admissionv1.Ignore, metrics: m}
	for _, mc := range conditions {
		out.programs = append(out.programs, c.Compile(mc.Expression, s, cel.Bool))
	}
	return out
}

// Match says whether all conditions are met. One that is not met decides,
// whatever errors others have; an error is returned only if errors refuse the
// write.
func (c *Conditions) Match(ctx context.Context, v *View, params any, variables []cel.Variable) (bool, error) {
	if len(c.programs) == 0 {
		return true, nil
	}
	began := time.Now()
	in := &Inputs{View: v, Ctx: ctx, Params: params, Authorizer: true}
	run := cel.NewRun(ctx, in, variables, celconfig.RuntimeCELCostBudgetMatchConditions)
	var errs []error
	unmet := false
	for _, p := range c.programs {
		got, err, end := run.Eval(p)
		if end != nil {
			c.metrics.Evaluated(v.w.a.Operation, 0, time.Since(began))
			return false, c.failed(end)
		}
		if err != nil {
			errs = append(errs, err)
		}
		unmet = unmet || got == types.False
	}
	c.metrics.Evaluated(v.w.a.Operation, len(errs), time.Since(began))
	if unmet || len(errs) == 0 {
		return !unmet, nil
	}
	return false, c.failed(utilerrors.NewAggregate(errs))
}

func (c *Conditions) failed(err error) error {
	if c.ignore {
		return nil
	}
	return err
}

// Excluded counts a write that does not meet the conditions.
func (c *Conditions) Excluded(v *View) { c.metrics.Excluded(v.w.a.Operation) }
