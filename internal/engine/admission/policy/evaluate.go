package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/expr"
	"github.com/kanzen-io/kanzen/internal/engine/admission/measure"
	"github.com/kanzen-io/kanzen/internal/object/cel"
)

// validation is a validation of a policy.
type validation struct {
	program           *cel.Program
	messageExpression *cel.Program // nil: none
	message           string
	reason            metav1.StatusReason
}

// annotation is an audit annotation of a policy.
type annotation struct {
	key     string
	program *cel.Program
}

// validatingPolicy compiles a ValidatingAdmissionPolicy.
func (d *Deps) validatingPolicy(obj admission.Object) *policy {
	in, ok := obj.(*admissionv1.ValidatingAdmissionPolicy)
	if !ok || in.Spec.MatchConstraints == nil {
		return nil
	}
	plain := cel.Scope{Params: in.Spec.ParamKind != nil, Variables: len(in.Spec.Variables) > 0}
	full := plain
	full.Authorizer = true
	p := &policy{
		name: in.Name, ignore: in.Spec.FailurePolicy != nil && *in.Spec.FailurePolicy == admissionv1.Ignore,
		paramKind: paramKind(in.Spec.ParamKind), variables: d.variables(in.Spec.Variables, full),
		conditions: expr.NewConditions(d.Compiler, in.Spec.MatchConditions, full, in.Spec.FailurePolicy,
			d.Metrics.ConditionsOf(in.Name, "policy", measure.Validate)),
		shadow: shadowed(in),
	}
	p.rules, p.selectors = matchResources(in.Spec.MatchConstraints)
	for _, v := range in.Spec.Validations {
		out := validation{program: d.Compiler.Compile(v.Expression, full, cel.Bool), message: v.Message, reason: metav1.StatusReasonInvalid}
		if v.MessageExpression != "" {
			out.messageExpression = d.Compiler.Compile(v.MessageExpression, plain, cel.String)
		}
		if v.Reason != nil {
			out.reason = *v.Reason
		}
		p.validations = append(p.validations, out)
	}
	for _, a := range in.Spec.AuditAnnotations {
		p.annotations = append(p.annotations, annotation{a.Key, d.Compiler.Compile(a.ValueExpression, full, cel.StringOrNull)})
	}
	return p
}

func validatingBinding(obj admission.Object) *binding {
	in, ok := obj.(*admissionv1.ValidatingAdmissionPolicyBinding)
	if !ok {
		return nil
	}
	b := newBinding(in.Name, in.Spec.PolicyName, in.Spec.MatchResources, in.Spec.ParamRef)
	b.actions = in.Spec.ValidationActions
	return b
}

// decision is the result of a validation that is not met or has an error.
type decision struct {
	// index of the validation in its policy.
	index int
	// admit says that it is an error that the failure policy ignores.
	admit   bool
	error   bool
	message string
	reason  metav1.StatusReason
	took    time.Duration
}

// evaluate evaluates a policy with one parameter on a write. It returns the
// decisions against the write and the audit annotations. wrong are errors of
// annotations.
func (p *policy) evaluate(ctx context.Context, v *expr.View, with param) (decisions []decision, annotations []keyValue, wrong []decision) {
	met, err := p.conditions.Match(ctx, v, with.value, p.variables)
	if err != nil {
		return []decision{p.failed(0, err, 0)}, nil, nil
	}
	if !met {
		return nil, nil, nil
	}
	decisions, end := p.validate(ctx, v, with)
	if end != nil {
		return []decision{p.failed(0, end, 0)}, nil, nil
	}
	annotations, wrong, end = p.annotate(ctx, v, with)
	if end != nil {
		return []decision{p.failed(0, end, 0)}, nil, nil
	}
	return decisions, annotations, wrong
}

func (p *policy) failed(index int, err error, took time.Duration) decision {
	return decision{index: index, admit: p.ignore, error: true, message: err.Error(), took: took}
}

func (p *policy) validate(ctx context.Context, v *expr.View, with param) ([]decision, error) {
	in := &expr.Inputs{View: v, Ctx: ctx, Params: with.value, Authorizer: true, Namespace: true}
	run := cel.NewRun(ctx, in, p.variables, celconfig.RuntimeCELCostBudget)
	var out []decision
	denied := false
	for i := range p.validations {
		began := time.Now()
		got, err, end := run.Eval(p.validations[i].program)
		took := time.Since(began)
		switch {
		case end != nil:
			return nil, end
		case err != nil:
			out = append(out, p.failed(i, err, took))
		case got != types.True:
			denied = true
			out = append(out, decision{index: i, reason: p.validations[i].reason, took: took})
		}
	}
	if denied {
		p.explain(ctx, v, with, run.Budget(), out)
	}
	return out, nil
}

// explain sets the messages of refusals. Message expressions are evaluated only
// for refusals, within the rest of the budget.
func (p *policy) explain(ctx context.Context, v *expr.View, with param, budget int64, decisions []decision) {
	in := &expr.Inputs{View: v, Ctx: ctx, Params: with.value, Namespace: true}
	run := cel.NewRun(ctx, in, p.variables, budget)
	texts := make([]string, len(p.validations))
	for i := range p.validations {
		m := p.validations[i].messageExpression
		if m == nil {
			continue
		}
		got, err, end := run.Eval(m)
		if end != nil {
			for n := range decisions {
				if !decisions[n].error && (errors.Is(end, apiservercel.ErrInternal) || cel.IsOutOfBudget(end)) {
					decisions[n] = p.failed(decisions[n].index, fmt.Errorf("failed messageExpression: %w", end), decisions[n].took)
				}
			}
			return
		}
		if err == nil {
			texts[i] = messageOf(got)
		}
	}
	for n := range decisions {
		d := &decisions[n]
		if d.error {
			continue
		}
		val := &p.validations[d.index]
		switch message := strings.TrimSpace(val.message); {
		case texts[d.index] != "":
			d.message = texts[d.index]
		case message != "":
			d.message = message
		default:
			d.message = "failed expression: " + strings.TrimSpace(val.program.Expression)
		}
	}
}

// messageOf returns the result of a message expression, if it is usable as a
// message.
func messageOf(v ref.Val) string {
	text, _ := v.Value().(string)
	text = strings.TrimSpace(text)
	if len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(text, "\n") {
		return ""
	}
	return text
}

type keyValue struct{ key, value string }

// maxAnnotation bounds the value of an audit annotation, in bytes.
const maxAnnotation = 10 << 10

func (p *policy) annotate(ctx context.Context, v *expr.View, with param) (out []keyValue, wrong []decision, end error) {
	if len(p.annotations) == 0 {
		return nil, nil, nil
	}
	in := &expr.Inputs{View: v, Ctx: ctx, Params: with.value, Namespace: true}
	run := cel.NewRun(ctx, in, p.variables, celconfig.RuntimeCELCostBudget)
	for i := range p.annotations {
		a := &p.annotations[i]
		began := time.Now()
		got, err, end := run.Eval(a.program)
		if end != nil {
			return nil, nil, end
		}
		if err == nil && got.Type() != types.StringType && got.Type() != types.NullType {
			//lint:ignore ST1005 these are the words that clients know
			err = fmt.Errorf("valueExpression '%v' resulted in unsupported return type: %v. Return type must be either string or null.",
				a.program.Expression, got.Type())
		}
		if err != nil {
			if !p.ignore {
				wrong = append(wrong, p.failed(i, err, time.Since(began)))
			}
			continue
		}
		text, _ := got.Value().(string)
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, keyValue{a.key, text[:min(len(text), maxAnnotation)]})
		}
	}
	return out, wrong, nil
}

// errorType returns the name of a decision in metrics.
func (d *decision) errorType() string {
	switch {
	case strings.HasPrefix(d.message, "compilation"):
		return "compile_error"
	case strings.HasPrefix(d.message, "validation failed due to running out of cost budget"):
		return "out_of_budget"
	}
	return "invalid_error"
}
