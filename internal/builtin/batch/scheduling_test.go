package batch

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"

	"github.com/kanzen-io/kanzen/internal/rules"
)

func TestScheduling(t *testing.T) {
	two, three, zero, name := int32(2), int32(3), int32(0), "claim"
	gang := func(n *int32) *schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy {
		return &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{Gang: &schedulingv1alpha3.WorkloadPodGroupGangSchedulingPolicy{MinCount: n}}
	}
	basic := &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{Basic: &schedulingv1alpha3.WorkloadPodGroupBasicSchedulingPolicy{}}
	whole := &schedulingv1alpha3.WorkloadPodGroupDisruptionMode{All: &schedulingv1alpha3.WorkloadPodGroupAllDisruptionMode{}}
	none := &batchv1.JobSchedulingConfiguration{}
	type config = batchv1.JobSchedulingConfiguration
	for title, c := range map[string]struct {
		is, was *config // was: none for a new job
		created bool
		want    []string
	}{
		"gang":            {is: &config{SchedulingPolicy: gang(&two), DisruptionMode: whole}},
		"large gang":      {is: &config{SchedulingPolicy: gang(&three)}, want: []string{"schedulingPolicy.gang.minCount"}},
		"no gang":         {is: &config{SchedulingPolicy: gang(&zero)}, want: []string{"schedulingPolicy.gang.minCount"}},
		"no policy":       {is: &config{SchedulingPolicy: &schedulingv1alpha3.WorkloadPodGroupSchedulingPolicy{}}, want: []string{"schedulingPolicy"}},
		"alone, together": {is: &config{SchedulingPolicy: basic, DisruptionMode: whole}, want: []string{"disruptionMode"}},
		"claims": {is: &config{ResourceClaims: []schedulingv1alpha3.WorkloadPodGroupResourceClaim{{Name: "A", ResourceClaimName: &name}, {Name: "b"}}},
			want: []string{"resourceClaims[0].name", "resourceClaims[1]"}},
		"topology": {is: &config{SchedulingConstraints: &schedulingv1alpha3.WorkloadPodGroupSchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{}}}},
			want: []string{"schedulingConstraints.topology[0].key"}},
		"size changes":   {is: &config{SchedulingPolicy: gang(&two)}, was: &config{SchedulingPolicy: gang(nil)}, created: true},
		"policy changes": {is: &config{SchedulingPolicy: gang(&two)}, was: &config{SchedulingPolicy: basic}, created: true, want: []string{"schedulingPolicy"}},
		"policy is set":  {is: &config{SchedulingPolicy: gang(&two)}, was: none, created: true, want: []string{"schedulingPolicy"}},
		"is set":         {is: none, created: true, want: []string{""}},
		"is removed":     {was: none, created: true, want: []string{""}},
		"mode changes":   {is: &config{SchedulingPolicy: gang(&two), DisruptionMode: whole}, was: &config{SchedulingPolicy: gang(&two)}, created: true, want: []string{"disruptionMode"}},
	} {
		e := rules.At(nil)
		var old *batchv1.JobSpec
		if c.created {
			old = &batchv1.JobSpec{Scheduling: c.was}
		}
		scheduling(&batchv1.JobSpec{Parallelism: &two, Scheduling: c.is}, old, e)
		var got, want []string
		for _, f := range e.List() {
			got = append(got, f.Field)
		}
		for _, w := range c.want {
			if w != "" {
				w = "." + w
			}
			want = append(want, "scheduling"+w)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: faults in %v, want %v", title, got, want)
		}
	}
}
