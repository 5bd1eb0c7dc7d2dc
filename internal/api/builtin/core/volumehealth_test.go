package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func TestReportedStatus(t *testing.T) {
	for _, c := range []struct {
		name, status string
		want         []string
	}{
		{"health", `{volumeHealth: [{name: v, healthConditions: [{status: DataLoss, reason: Gone}]}]}`, nil},
		{"no volume", `{volumeHealth: [{name: w}, {name: w}]}`, []string{
			"status.volumeHealth[0].name NotFound", "status.volumeHealth[1] Duplicate", "status.volumeHealth[1].name NotFound"}},
		{"condition", `{volumeHealth: [{name: v, healthConditions: [{status: Bad, reason: "a b"}, {status: Degraded}]}]}`, []string{
			"status.volumeHealth[0].healthConditions[0].reason Invalid", "status.volumeHealth[0].healthConditions[0].status NotSupported",
			"status.volumeHealth[0].healthConditions[1].reason Required"}},
		{"condition twice", `{volumeHealth: [{name: v, healthConditions: [{status: Degraded, reason: A}, {status: Degraded, reason: A}]}]}`,
			[]string{"status.volumeHealth[0].healthConditions[1] Duplicate"}},
		{"claim", `{nodeAllocatableResourceClaimStatuses: [{resourceClaimName: c, mapping: [{name: cpu, quantity: 1}], overhead: [{name: memory, perPod: 1Mi}]}]}`, nil},
		{"no claim", `{nodeAllocatableResourceClaimStatuses: [{resourceClaimName: d, containers: [a, a]}]}`, []string{
			"status.nodeAllocatableResourceClaimStatuses[0].containers[1] Duplicate",
			"status.nodeAllocatableResourceClaimStatuses[0].resourceClaimName Invalid"}},
		{"amounts", `{nodeAllocatableResourceClaimStatuses: [{resourceClaimName: c, mapping: [{name: x/y, quantity: -1}], overhead: [{name: memory}]}]}`, []string{
			"status.nodeAllocatableResourceClaimStatuses[0].mapping[0].name Invalid",
			"status.nodeAllocatableResourceClaimStatuses[0].mapping[0].quantity Invalid",
			"status.nodeAllocatableResourceClaimStatuses[0].overhead[0] Invalid"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim := "c"
			spec := &corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v"}}, ResourceClaims: []corev1.PodResourceClaim{{Name: "x", ResourceClaimName: &claim}}}
			s := &corev1.PodStatus{}
			if err := yaml.UnmarshalStrict([]byte(c.status), s); err != nil {
				t.Fatal(err)
			}
			e := rules.At(field.NewPath("status"))
			claimStatuses(s, spec, e)
			podVolumeHealth(s.VolumeHealth, spec, e.Field("volumeHealth"))
			if got := faults(e.List()); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// A client that does not know the resources of a pod as a whole does not take them away.
func TestKeptPodResources(t *testing.T) {
	d, _, _ := newDeps()
	old := &corev1.Pod{}
	old.Spec.Resources = &corev1.ResourceRequirements{}
	p := &corev1.Pod{}
	d.preparePodUpdate(t.Context(), p, old)
	if p.Spec.Resources == nil {
		t.Error("they are gone")
	}
}
