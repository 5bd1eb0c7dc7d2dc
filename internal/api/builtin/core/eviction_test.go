package core

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/request"
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

// meanwhile is stored objects that change before the n-th write to a resource: what the writer has looked at is another
// object by then.
type meanwhile struct {
	fakeObjects
	before string // the resource
	swap   func(fakeObjects)
}

func (m *meanwhile) due(r schema.GroupResource) {
	if m.swap != nil && r.Resource == m.before {
		m.swap(m.fakeObjects)
		m.swap = nil
	}
}

func (m *meanwhile) Update(ctx context.Context, r schema.GroupResource, w request.Which, dryRun bool, change func(engine.Object) error) (engine.Object, error) {
	m.due(r)
	return m.fakeObjects.Update(ctx, r, w, dryRun, change)
}

func (m *meanwhile) Delete(ctx context.Context, r schema.GroupResource, w request.Which, o *metav1.DeleteOptions) error {
	m.due(r)
	return m.fakeObjects.Delete(ctx, r, w, o)
}

// An eviction that asked a budget about one pod does not delete another pod of its name, and does not spend another budget
// of the budget's name.
func TestEvictionOfAnotherPod(t *testing.T) {
	pod := func(uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: uid, ResourceVersion: string(uid), Labels: map[string]string{"a": "b"}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	}
	budget := func(uid types.UID) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: uid, ResourceVersion: string(uid)},
			Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1}}
	}
	u := types.UID("1")
	for name, c := range map[string]struct {
		before  string
		swap    func(fakeObjects)
		options metav1.DeleteOptions
		want    func(error) bool
	}{
		"pod":               {"pods", func(f fakeObjects) { f["pods/ns/p"] = pod("2") }, metav1.DeleteOptions{}, apierrors.IsNotFound},
		"pod, dry run":      {"pods", func(f fakeObjects) { f["pods/ns/p"] = pod("2") }, metav1.DeleteOptions{DryRun: []string{"All"}}, apierrors.IsNotFound},
		"pod with its UID":  {"pods", func(f fakeObjects) { f["pods/ns/p"] = pod("2") }, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &u}}, apierrors.IsConflict},
		"pod that is gone":  {"pods", func(f fakeObjects) { delete(f, "pods/ns/p") }, metav1.DeleteOptions{}, apierrors.IsNotFound},
		"disruption budget": {"poddisruptionbudgets", func(f fakeObjects) { f["poddisruptionbudgets/ns/b"] = budget("2") }, metav1.DeleteOptions{}, apierrors.IsTooManyRequests},
	} {
		objects := &meanwhile{fakeObjects{"pods/ns/p": pod("1"), "poddisruptionbudgets/ns/b": budget("1")}, c.before, c.swap}
		d := Deps{Objects: objects, Now: time.Now}
		ev := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, DeleteOptions: &c.options}
		_, err := evictPod(d)(t.Context(), "p", ev, allowed, &metav1.CreateOptions{})
		if !c.want(err) {
			t.Errorf("%s is another one: %v", name, err)
		}
		if p, ok := objects.fakeObjects["pods/ns/p"].(*corev1.Pod); ok && len(p.Status.Conditions) != 1 {
			t.Errorf("%s is another one: the pod was marked: %v", name, p.Status.Conditions)
		}
		if b := objects.fakeObjects["poddisruptionbudgets/ns/b"].(*policyv1.PodDisruptionBudget); b.UID == "2" && b.Status.DisruptionsAllowed != 1 {
			t.Errorf("%s is another one: it was spent", name)
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

func allowed(context.Context, engine.Object) error { return nil }
