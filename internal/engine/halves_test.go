package engine

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestHalves has writes reach what they are for, and nothing else.
func TestHalves(t *testing.T) {
	var seen string
	main := Typed[*corev1.Node]{
		StatusApart: true, CountsSpec: true,
		PrepareUpdate: func(_ context.Context, n, _ *corev1.Node) {
			seen = n.Status.NodeInfo.Architecture
			n.Spec.ProviderID = "" // what is dropped is no change
		},
	}.Rules()
	stored := &corev1.Node{}
	stored.Spec.PodCIDR, stored.Status.NodeInfo.Architecture = "10.0.0.0/24", "s390x"
	main.PrepareCreate(t.Context(), stored)
	if stored.Generation != 1 || stored.Status.NodeInfo.Architecture != "" || stored.Spec.PodCIDR == "" {
		t.Errorf("created: %+v", stored)
	}
	stored.Status.NodeInfo.Architecture, stored.Labels = "arm64", map[string]string{"a": "b"}

	same := &corev1.Node{}
	same.Generation, same.Spec.PodCIDR, same.Spec.ProviderID, same.Status.NodeInfo.Architecture = 1, "10.0.0.0/24", "x", "amd64"
	main.PrepareUpdate(t.Context(), same, stored)
	if seen != "arm64" || same.Generation != 1 || same.Status.NodeInfo.Architecture != "arm64" {
		t.Errorf("an update of the status by the main path: %q, %+v", seen, same)
	}
	other := &corev1.Node{}
	other.Spec.PodCIDR = "10.0.1.0/24"
	main.PrepareUpdate(t.Context(), other, stored)
	if other.Generation != 2 || other.Spec.PodCIDR != "10.0.1.0/24" {
		t.Errorf("an update of the spec: %+v", other)
	}

	for name, labelled := range map[string]bool{"Status": false, "LoneStatus": true} {
		status := Status(Typed[*corev1.Node]{})
		if labelled {
			status = LoneStatus(Typed[*corev1.Node]{})
		}
		n := &corev1.Node{}
		n.Spec.PodCIDR, n.Status.NodeInfo.Architecture = "10.0.9.0/24", "riscv64"
		status.Rules.PrepareUpdate(t.Context(), n, stored)
		if n.Spec.PodCIDR != "10.0.0.0/24" || n.Status.NodeInfo.Architecture != "riscv64" || (n.Labels["a"] == "b") != labelled {
			t.Errorf("%s: %+v", name, n)
		}
	}
	if main.Reset != ResetStatus || Status(Typed[*corev1.Node]{}).Rules.Reset != ResetSpec || LoneStatus(Typed[*corev1.Node]{}).Rules.Reset != ResetSpecAndMetadata {
		t.Error("field management records what the writes do not change")
	}
	defer func() {
		if recover() == nil {
			t.Error("a kind without a status has one")
		}
	}()
	Typed[*corev1.ConfigMap]{StatusApart: true}.Rules()
}
