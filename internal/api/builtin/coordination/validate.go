package coordination

import (
	"context"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func validate(_ context.Context, l *coordinationv1.Lease) field.ErrorList {
	return append(rules.GenericMeta(&l.ObjectMeta, true, rules.Subdomain), spec(&l.Spec)...)
}

func validateUpdate(_ context.Context, l, old *coordinationv1.Lease) field.ErrorList {
	return append(rules.GenericMetaUpdate(&l.ObjectMeta, &old.ObjectMeta), spec(&l.Spec)...)
}

func spec(s *coordinationv1.LeaseSpec) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	if p := s.LeaseDurationSeconds; p != nil {
		e.Positive("leaseDurationSeconds", int64(*p))
	}
	rules.NonnegativePtr(e, "leaseTransitions", s.LeaseTransitions)
	if p := s.Strategy; p != nil {
		strategy(*p, e)
	}
	if p := s.PreferredHolder; p != nil && *p != "" && (s.Strategy == nil || *s.Strategy == "") {
		e.Field("preferredHolder").Forbidden("needs strategy")
	}
	return e.List()
}

// strategy validates how a leader is chosen: a strategy of Kubernetes, or another one with its domain. The path is one level too
// deep, for compatibility.
func strategy(s coordinationv1.CoordinatedLeaseStrategy, e rules.Errors) {
	at := e.Field("strategy")
	if strings.Contains(string(s), "/") {
		at.Field("strategy").QualifiedName(string(s))
	} else {
		rules.OneOf(at, "strategy", s, []coordinationv1.CoordinatedLeaseStrategy{coordinationv1.OldestEmulationVersion})
	}
}
