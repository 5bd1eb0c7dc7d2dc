package schema

import (
	"fmt"
	"math"
	"strings"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// messageError is an error of a message expression that ends the evaluation.
type messageError struct {
	detail   string
	internal bool
}

func (e *messageError) Error() string { return e.detail }

// message evaluates a rule's messageExpression. It returns "" if that fails, so that the rule's message is used.
func (e *evaluator) message(r *rule, p *program, act *activation) (string, *messageError) {
	result, details, err := p.ContextEval(e.ctx, act)
	if details == nil || details.ActualCost() == nil {
		return "", &messageError{fmt.Sprintf("runtime cost could not be calculated for messageExpression: %q", r.messageExpression), true}
	}
	cost := *details.ActualCost()
	if cost > math.MaxInt64 || int64(cost) > e.budget {
		return "", &messageError{detail: "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"}
	}
	if err != nil && strings.HasPrefix(err.Error(), "operation cancelled: actual cost limit exceeded") {
		return "", &messageError{detail: fmt.Sprintf("no further validation rules will be run due to call cost exceeds limit for messageExpression: %q", r.messageExpression)}
	}
	e.budget -= int64(cost)
	if err != nil {
		return "", nil
	}
	text, _ := result.Value().(string)
	text = strings.TrimSpace(text)
	if len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(text, "\n") {
		return "", nil
	}
	return text, nil
}
