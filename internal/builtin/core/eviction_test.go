package core

import (
	"slices"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What people who drain a node read, in kube-apiserver's words: the budget's own reason where its controller told one.
func TestBudgetRefusals(t *testing.T) {
	condition := func(reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message}}
	}
	many := map[string]metav1.Time{}
	for n := range 2001 {
		many[string(rune('a'+n))] = metav1.Time{}
	}
	for name, c := range map[string]struct {
		status policyv1.PodDisruptionBudgetStatus
		reason metav1.StatusReason
		want   string
	}{
		"allowed":    {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, DisruptionsAllowed: 1}, "", ""},
		"not seen":   {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1}, metav1.StatusReasonTooManyRequests, "The disruption budget b is still being processed by the server."},
		"negative":   {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, DisruptionsAllowed: -1}, metav1.StatusReasonForbidden, `poddisruptionbudget.policy "b" is forbidden: pdb disruptions allowed is negative`},
		"many":       {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, DisruptedPods: many}, metav1.StatusReasonForbidden, `poddisruptionbudget.policy "b" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller`},
		"too few":    {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, DesiredHealthy: 3, CurrentHealthy: 2, Conditions: condition("InsufficientPods", "x")}, metav1.StatusReasonTooManyRequests, "The disruption budget b needs 3 healthy pods and has 2 currently"},
		"not synced": {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, Conditions: condition(policyv1.SyncFailedReason, "no scale")}, metav1.StatusReasonTooManyRequests, "The disruption budget b does not allow evicting pods currently because it failed sync: no scale"},
		"told":       {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, CurrentHealthy: 1, Conditions: condition("Other", "later")}, metav1.StatusReasonTooManyRequests, "The disruption budget b does not allow evicting pods currently (Other): later"},
		"not told":   {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, CurrentHealthy: 1}, metav1.StatusReasonTooManyRequests, "The disruption budget b does not allow evicting pods currently"},
	} {
		err := checkBudget(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: 2}, Status: c.status})
		says := ""
		if err != nil {
			says = err.Error()
		}
		if apierrors.IsTooManyRequests(err) {
			if want := "Cannot evict pod as it would violate the pod's disruption budget."; says != want {
				t.Errorf("%s: got %q, want %q", name, says, want)
			}
			says = ""
			for _, cause := range err.(apierrors.APIStatus).Status().Details.Causes {
				says += cause.Message
			}
		}
		if got := apierrors.ReasonForError(err); got != c.reason && err != nil || says != c.want {
			t.Errorf("%s: got %q %q, want %q %q", name, got, says, c.reason, c.want)
		}
	}
}

// Clients from before policy/v1 send evictions of v1beta1, which kube-apiserver takes although it does not serve that version.
func TestEvictionVersions(t *testing.T) {
	for _, s := range pods(Deps{}).Subresources {
		if s.Name == "eviction" && !slices.Contains(s.Alike, schema.GroupVersion{Group: "policy", Version: "v1beta1"}) {
			t.Errorf("evictions may be of %v", s.Alike)
		}
	}
}
