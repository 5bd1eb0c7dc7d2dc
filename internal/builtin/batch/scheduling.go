package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/rules"
)

// maxClaims is how many claims the pods of a job can share: those of a pod group.
const maxClaims = 4

// scheduling validates how the pods of a job are scheduled together. A job that exists (old is not nil) keeps all of it but the
// size of its gang.
func scheduling(s, old *batchv1.JobSpec, e rules.Errors) {
	at, c := e.Field("scheduling"), s.Scheduling
	if c != nil {
		fits(s, at)
	}
	if old != nil && !bothOrNone(c, old.Scheduling, at) || c == nil {
		return
	}
	was := &batchv1.JobSchedulingConfiguration{}
	if old != nil {
		was = old.Scheduling
	}
	if old == nil || bothOrNone(c.SchedulingPolicy, was.SchedulingPolicy, at.Field("schedulingPolicy")) {
		schedulingPolicy(c.SchedulingPolicy, was.SchedulingPolicy, at.Field("schedulingPolicy"))
	}
	if old != nil {
		at.Add(rules.Immutable(c.SchedulingConstraints, was.SchedulingConstraints, at.Path.Child("schedulingConstraints")))
		at.Add(rules.Immutable(c.DisruptionMode, was.DisruptionMode, at.Path.Child("disruptionMode")))
		at.Add(rules.Immutable(c.ResourceClaims, was.ResourceClaims, at.Path.Child("resourceClaims")))
		return
	}
	topology(c.SchedulingConstraints, at.Field("schedulingConstraints").Field("topology"))
	disruption(c.DisruptionMode, at.Field("disruptionMode"))
	sharedClaims(c.ResourceClaims, at.Field("resourceClaims"))
}

// fits validates what depends on other fields: a gang has no more pods than run at once, and only a gang is disrupted as a whole.
func fits(s *batchv1.JobSpec, e rules.Errors) {
	p, parallel := s.Scheduling.SchedulingPolicy, int32(1)
	if s.Parallelism != nil {
		parallel = *s.Parallelism
	}
	if p != nil && p.Gang != nil && p.Gang.MinCount != nil && *p.Gang.MinCount > parallel {
		e.Field("schedulingPolicy").Field("gang").Field("minCount").Invalid(*p.Gang.MinCount, fmt.Sprintf("must not be more than parallelism, %d", parallel))
	}
	if d := s.Scheduling.DisruptionMode; d != nil && d.All != nil && (p == nil || p.Basic != nil) {
		e.Field("disruptionMode").Invalid("", "`all` needs a gang")
	}
}

// bothOrNone reports a field that was set or removed.
func bothOrNone[T any](v, old *T, e rules.Errors) bool {
	if (v == nil) == (old == nil) {
		return true
	}
	e.Invalid(nil, "can be set only when the job is created, and not be removed")
	return false
}

func schedulingPolicy(p, old *schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy, e rules.Errors) {
	if p == nil || apiequality.Semantic.DeepEqual(p, old) {
		return
	}
	oneOf(e, "basic, gang", p.Basic != nil, p.Gang != nil)
	if old != nil && (p.Basic != nil) != (old.Basic != nil) {
		e.Invalid(nil, "cannot change between basic and gang")
	}
	if p.Gang != nil && p.Gang.MinCount != nil && *p.Gang.MinCount < 1 {
		e.Field("gang").Field("minCount").Invalid(*p.Gang.MinCount, "must be at least 1")
	}
}

func topology(c *schedulingv1alpha3.WorkloadPodGroupSchedulingConstraints, e rules.Errors) {
	if c == nil {
		return
	}
	if len(c.Topology) > 1 {
		e.AddError(field.TooMany(e.Path, len(c.Topology), 1))
		return
	}
	for i, t := range c.Topology {
		if at := e.Item(i); at.Present("key", t.Key) {
			at.LabelKey("key", t.Key)
		}
	}
}

func disruption(d *schedulingv1alpha3.WorkloadPodGroupDisruptionMode, e rules.Errors) {
	if d != nil {
		oneOf(e, "single, all", d.Single != nil, d.All != nil)
	}
}

func sharedClaims(claims []schedulingv1alpha3.WorkloadPodGroupResourceClaim, e rules.Errors) {
	if len(claims) > maxClaims {
		e.AddError(field.TooMany(e.Path, len(claims), maxClaims))
		return
	}
	seen := map[string]bool{}
	for i, c := range claims {
		at := e.Item(i)
		if seen[c.Name] {
			at.Duplicate(c)
		}
		seen[c.Name] = true
		oneOf(at, "resourceClaimName, resourceClaimTemplateName", c.ResourceClaimName != nil, c.ResourceClaimTemplateName != nil)
		if at.Present("name", c.Name) {
			at.Field("name").Messages(c.Name, validation.IsDNS1123Label(c.Name))
		}
		for name, value := range map[string]*string{"resourceClaimName": c.ResourceClaimName, "resourceClaimTemplateName": c.ResourceClaimTemplateName} {
			if value != nil {
				at.Field(name).Messages(*value, validation.IsDNS1123Subdomain(*value))
			}
		}
	}
}

// oneOf requires that one of two fields is set.
func oneOf(e rules.Errors, names string, a, b bool) {
	if a == b {
		e.Invalid("", "must have exactly one of: "+names)
	}
}
