package scheduling

import (
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"PriorityClass":     celltest.For[schedulingv1.PriorityClass](priorityClassTable()),
		"Workload":          celltest.For[workload](workloadTable()),
		"PodGroup":          celltest.For[podGroup](podGroupTable()),
		"CompositePodGroup": celltest.For[compositePodGroup](compositePodGroupTable()),
	})
}

func TestPodGroupStatus(t *testing.T) {
	scheduled := metav1.Condition{Type: "PodGroupInitiallyScheduled", Status: metav1.ConditionTrue}
	failed := metav1.Condition{Type: "PodGroupInitiallyScheduled", Status: metav1.ConditionFalse}
	disrupted := metav1.Condition{Type: "DisruptionTarget", Status: metav1.ConditionTrue, Reason: "PreemptionByScheduler"}
	for want, conditions := range map[string][]metav1.Condition{
		"Pending": nil, "Scheduled": {scheduled}, "Unschedulable": {failed}, "PreemptionByScheduler": {scheduled, disrupted},
	} {
		g := &podGroup{}
		g.Status.Conditions = conditions
		if got := podGroupStatus(g); got != want {
			t.Errorf("%v: %s, not %s", conditions, got, want)
		}
	}
}
