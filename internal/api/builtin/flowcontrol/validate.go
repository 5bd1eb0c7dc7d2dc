package flowcontrol

import (
	"context"
	"fmt"
	"math"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

const (
	maxPrecedence = 10000
	maxQueues     = 10_000_000
	// maxHashBits is the number of bits of a flow's hash that select its queues.
	maxHashBits = 60
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

func validatePriorityLevelConfiguration(_ context.Context, l *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&l.ObjectMeta, false, rules.Subdomain))
	// In earlier versions it distinguished zero shares from unset ones.
	const annotation = "flowcontrol.k8s.io/preserve-zero-concurrency-shares"
	if _, found := l.Annotations[annotation]; found {
		e.Elsewhere(field.NewPath("metadata", "annotations")).Forbidden("annotation '" + annotation + "' is forbidden")
	}
	priorityLevel(l, e)
	for _, m := range MandatoryPriorityLevels() {
		if m.Name != l.Name {
			continue
		}
		is, but := l.Spec, ""
		if l.Name == nameExempt {
			is.Exempt, but = m.Spec.Exempt, " except the 'spec.exempt' field"
		}
		if !apiequality.Semantic.DeepEqual(is, m.Spec) {
			e.Invalid(l.Spec, fmt.Sprintf("spec of '%s'%s must equal the fixed value", l.Name, but))
		}
	}
	e.Add(priorityLevelStatus(l))
	return e.List()
}

func validatePriorityLevelConfigurationUpdate(ctx context.Context, l, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	return validatePriorityLevelConfiguration(ctx, l)
}

func validatePriorityLevelConfigurationStatus(_ context.Context, l, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	return priorityLevelStatus(l)
}

func priorityLevelStatus(l *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	var types []string
	for _, c := range l.Status.Conditions {
		types = append(types, string(c.Type))
	}
	return conditionTypes(types)
}

func conditionTypes(types []string) field.ErrorList {
	e := rules.At(statusPath.Child("conditions"))
	for i, t := range types {
		if slices.Contains(types[:i], t) {
			e.Item(i).Field("type").Duplicate(t)
		}
		e.Item(i).Present("type", t)
	}
	return e.List()
}

func priorityLevel(l *flowcontrolv1.PriorityLevelConfiguration, e rules.Errors) {
	s := &l.Spec
	if (l.Name == nameExempt) != (s.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		e.Field("type").Invalid(s.Type, "must be 'Exempt' if and only if `name` is 'exempt'")
	}
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if s.Limited != nil {
			e.Field("limited").Forbidden("must be nil if the type is not Limited")
		}
		if c := s.Exempt; c != nil {
			shares(c.NominalConcurrencyShares, e.Field("exempt"))
			lendable(c.LendablePercent, e.Field("exempt"))
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if s.Exempt != nil {
			e.Field("exempt").Forbidden("must be nil if the type is Limited")
		}
		if s.Limited == nil {
			e.Field("limited").Required("must not be empty when type is Limited")
		} else {
			limited(s.Limited, e.Field("limited"))
		}
	default:
		rules.RequiredOneOf(e, "type", s.Type, []flowcontrolv1.PriorityLevelEnablement{
			flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited,
		})
	}
}

func shares(n *int32, e rules.Errors) {
	if n != nil && *n < 0 {
		e.Field("nominalConcurrencyShares").Invalid(*n, "must be a non-negative integer")
	}
}

func lendable(percent *int32, e rules.Errors) {
	if percent != nil && (*percent < 0 || *percent > 100) {
		e.Field("lendablePercent").Invalid(*percent, "must be between 0 and 100, inclusive")
	}
}

func limited(c *flowcontrolv1.LimitedPriorityLevelConfiguration, e rules.Errors) {
	shares(c.NominalConcurrencyShares, e)
	response, r := e.Field("limitResponse"), &c.LimitResponse
	switch r.Type { // kube-apiserver's words say Limited where they mean Queue
	case flowcontrolv1.LimitResponseTypeReject:
		if r.Queuing != nil {
			response.Field("queuing").Forbidden("must be nil if limited.limitResponse.type is not Limited")
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			response.Field("queuing").Required("must not be empty if limited.limitResponse.type is Limited")
		} else {
			queuing(r.Queuing, response.Field("queuing"))
		}
	default:
		rules.RequiredOneOf(response, "type", r.Type, []flowcontrolv1.LimitResponseType{
			flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject,
		})
	}
	lendable(c.LendablePercent, e)
	if p := c.BorrowingLimitPercent; p != nil && *p < 0 {
		e.Field("borrowingLimitPercent").Invalid(*p, "if specified, must be a non-negative integer")
	}
}

func queuing(q *flowcontrolv1.QueuingConfiguration, e rules.Errors) {
	positive := func(name string, n int32) bool {
		if n <= 0 {
			e.Field(name).Invalid(n, "must be positive")
		}
		return n > 0
	}
	positive("queueLengthLimit", q.QueueLengthLimit)
	if positive("queues", q.Queues) && q.Queues > maxQueues {
		e.Field("queues").Invalid(q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues))
	}
	switch hand := e.Field("handSize"); {
	case !positive("handSize", q.HandSize):
	case q.HandSize > q.Queues:
		hand.Invalid(q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues))
	case math.Ceil(math.Log2(float64(q.Queues))*float64(q.HandSize)) > maxHashBits:
		hand.Invalid(q.HandSize, fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, maxHashBits))
	}
}
