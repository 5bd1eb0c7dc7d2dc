package batch

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// scheduling validates how the pods of a job are scheduled together. was is the spec that is replaced, nil for a new one.
func (deps Deps) scheduling(s, was *batchv1.JobSpec, e rules.Errors) {
	e = e.Field("scheduling")
	schedulingPlan(s, e)
	var have *batchv1.JobSchedulingConfiguration
	if was != nil {
		have = was.Scheduling
	}
	switch c := s.Scheduling; {
	case was != nil && apiequality.Semantic.DeepEqual(c, have):
	case c != nil && !deps.Pods.Gates.Enabled(features.WorkloadWithJob):
		e.Forbidden("")
	case kept(was != nil, c, have, e):
		schedulingBlocks(c, have, e)
	}
}

// schedulingPlan validates what a job as a whole can be scheduled by. A job without a policy has the basic one.
func schedulingPlan(s *batchv1.JobSpec, e rules.Errors) {
	c := s.Scheduling
	if c == nil {
		return
	}
	p := c.SchedulingPolicy
	if p != nil && p.Gang != nil && p.Gang.MinCount != nil {
		parallelism := int32(1)
		if s.Parallelism != nil {
			parallelism = *s.Parallelism
		}
		if n := *p.Gang.MinCount; n > parallelism {
			e.Field("schedulingPolicy").Field("gang").Field("minCount").Invalid(n, fmt.Sprintf("must not be greater than parallelism (%d)", parallelism))
		}
	}
	if m := c.DisruptionMode; m != nil && m.All != nil && (p == nil || p.Basic != nil) {
		e.Field("disruptionMode").Invalid("", "the disruptionMode `all` is not supported with the Basic scheduling policy")
	}
}

// samePolicy requires that a job keeps its kind of policy; only the size of a gang may change.
func samePolicy(s, was *batchv1.JobSpec, e rules.Errors) {
	if s.Scheduling == nil || was.Scheduling == nil {
		return
	}
	p, old := s.Scheduling.SchedulingPolicy, was.Scheduling.SchedulingPolicy
	if p != nil && old != nil && (p.Basic == nil) != (old.Basic == nil) {
		e.Field("scheduling").Field("schedulingPolicy").Invalid(nil, "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be updated")
	}
}

// kept reports whether a block is there and may be: an update neither adds nor removes it.
func kept[T any](update bool, v, was *T, e rules.Errors) bool {
	switch {
	case update && was == nil && v != nil:
		e.Invalid(nil, "field cannot be set once created")
	case update && was != nil && v == nil:
		e.Invalid(nil, "field cannot be cleared once set")
	default:
		return v != nil
	}
	return false
}

// schedulingBlocks validates the parts of a configuration by what their types declare. was is nil for a new one.
func schedulingBlocks(c, was *batchv1.JobSchedulingConfiguration, e rules.Errors) {
	ctx, op := context.Background(), operation.Operation{Type: operation.Create}
	update := was != nil
	if update {
		op.Type = operation.Update
	} else {
		was = &batchv1.JobSchedulingConfiguration{}
	}
	unchanged := func(v, was any) bool { return update && apiequality.Semantic.DeepEqual(v, was) }
	at := e.Field("schedulingPolicy")
	if p := c.SchedulingPolicy; !unchanged(p, was.SchedulingPolicy) && kept(update, p, was.SchedulingPolicy, at) {
		e.Add(schedulingv1alpha3.Validate_WorkloadPodGroupSchedulingPolicy(ctx, op, at.Path(), p, was.SchedulingPolicy))
	}
	fixed(c.SchedulingConstraints, was.SchedulingConstraints, update, e.Field("schedulingConstraints"),
		func(path *field.Path, v *schedulingv1alpha3.WorkloadPodGroupSchedulingConstraints) field.ErrorList {
			return schedulingv1alpha3.Validate_WorkloadPodGroupSchedulingConstraints(ctx, op, path, v, nil)
		})
	fixed(c.DisruptionMode, was.DisruptionMode, update, e.Field("disruptionMode"),
		func(path *field.Path, v *schedulingv1alpha3.WorkloadPodGroupDisruptionMode) field.ErrorList {
			return schedulingv1alpha3.Validate_WorkloadPodGroupDisruptionMode(ctx, op, path, v, nil)
		})
	switch at := e.Field("resourceClaims"); {
	case !update:
		resourceClaims(ctx, op, c.ResourceClaims, at)
	case !unchanged(c.ResourceClaims, was.ResourceClaims):
		at.Invalid(nil, "field is immutable")
		tooManyClaims(c.ResourceClaims, at)
	}
}

// fixed validates a block that does not change.
func fixed[T any](v, was *T, update bool, e rules.Errors, check func(*field.Path, *T) field.ErrorList) {
	switch {
	case update && apiequality.Semantic.DeepEqual(v, was):
	case update:
		e.Invalid(nil, "field is immutable")
	case v != nil:
		e.Add(check(e.Path(), v))
	}
}

const maxSharedClaims = 4

func tooManyClaims(claims []schedulingv1alpha3.WorkloadPodGroupResourceClaim, e rules.Errors) bool {
	if len(claims) > maxSharedClaims {
		e.AddError(field.TooMany(e.Path(), len(claims), maxSharedClaims))
		return true
	}
	return false
}

func resourceClaims(ctx context.Context, op operation.Operation, claims []schedulingv1alpha3.WorkloadPodGroupResourceClaim, e rules.Errors) {
	if tooManyClaims(claims, e) {
		return
	}
	seen := map[string]bool{}
	for i := range claims {
		if seen[claims[i].Name] {
			e.Item(i).Duplicate(claims[i].Name)
		}
		seen[claims[i].Name] = true
	}
	for i := range claims {
		e.Add(schedulingv1alpha3.Validate_WorkloadPodGroupResourceClaim(ctx, op, e.Item(i).Path(), &claims[i], nil))
	}
}
