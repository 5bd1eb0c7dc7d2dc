package flowcontrol

import (
	"context"
	"math"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/rules"
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
		e.Elsewhere(field.NewPath("metadata", "annotations")).Forbidden(annotation)
	}
	priorityLevel(l, e)
	for _, m := range MandatoryPriorityLevels() {
		if m.Name != l.Name {
			continue
		}
		is := l.Spec
		if l.Name == nameExempt {
			is.Exempt = m.Spec.Exempt
		}
		if !apiequality.Semantic.DeepEqual(is, m.Spec) {
			e.Invalid(l.Name, "is fixed for this name")
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
			e.Field("limited").Forbidden("only for type Limited")
		}
		if c := s.Exempt; c != nil {
			rules.NonnegativePtr(e.Field("exempt"), "nominalConcurrencyShares", c.NominalConcurrencyShares)
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

func lendable(percent *int32, e rules.Errors) {
	if percent != nil {
		e.Range("lendablePercent", int64(*percent), 0, 100)
	}
}

func limited(c *flowcontrolv1.LimitedPriorityLevelConfiguration, e rules.Errors) {
	rules.NonnegativePtr(e, "nominalConcurrencyShares", c.NominalConcurrencyShares)
	response, r := e.Field("limitResponse"), &c.LimitResponse
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if r.Queuing != nil {
			response.Field("queuing").Forbidden("only for type Queue")
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			response.Field("queuing").Required("for type Queue")
		} else {
			queuing(r.Queuing, response.Field("queuing"))
		}
	default:
		rules.RequiredOneOf(response, "type", r.Type, []flowcontrolv1.LimitResponseType{
			flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject,
		})
	}
	lendable(c.LendablePercent, e)
	rules.NonnegativePtr(e, "borrowingLimitPercent", c.BorrowingLimitPercent)
}

func queuing(q *flowcontrolv1.QueuingConfiguration, e rules.Errors) {
	e.Positive("queueLengthLimit", int64(q.QueueLengthLimit))
	e.Range("queues", int64(q.Queues), 1, maxQueues)
	switch hand := e.Field("handSize"); {
	case q.HandSize <= 0:
		e.Positive("handSize", int64(q.HandSize))
	case q.HandSize > q.Queues:
		hand.Invalid(q.HandSize, "cannot be more than queues")
	case math.Ceil(math.Log2(float64(q.Queues))*float64(q.HandSize)) > maxHashBits:
		hand.Invalid(q.HandSize, "needs more bits than the hash of a flow has")
	}
}
