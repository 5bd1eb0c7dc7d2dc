package scheduling

import (
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func priorityClassTable() *engine.Table {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return engine.TableOf(priorityClassRow,
		cells.Name(),
		cells.Integer("Value", doc["value"]),
		cells.Boolean("Global-Default", doc["globalDefault"]),
		cells.Age(),
		cells.String("PreemptionPolicy", doc["preemptionPolicy"]),
	)
}

func priorityClassRow(c *schedulingv1.PriorityClass) []any {
	return []any{
		c.Name, int64(c.Value), c.GlobalDefault, cells.Since(c.CreationTimestamp), cells.Deref(c.PreemptionPolicy, ""),
	}
}

func workloadTable() *engine.Table {
	return engine.TableOf(func(w *workload) []any { return []any{w.Name, cells.Since(w.CreationTimestamp)} }, cells.Name(), cells.Age())
}

func podGroupTable() *engine.Table {
	return engine.TableOf(func(g *podGroup) []any {
		s := &g.Spec
		return []any{g.Name, policy(s.SchedulingPolicy.Gang != nil), workloadOf(s.WorkloadRef), podGroupStatus(g), cells.Since(g.CreationTimestamp)}
	},
		cells.Name(),
		cells.String("Policy", schedulingv1alpha3.PodGroupSpec{}.SwaggerDoc()["schedulingPolicy"]),
		cells.String("Workload", "The workload that the group belongs to."),
		cells.String("Status", "Whether the group is scheduled, or why it is disrupted."),
		cells.Age(),
	)
}

func compositePodGroupTable() *engine.Table {
	return engine.TableOf(func(g *compositePodGroup) []any {
		s := &g.Spec
		return []any{g.Name, policy(s.SchedulingPolicy.Gang != nil), workloadOf(s.WorkloadRef), cells.Since(g.CreationTimestamp)}
	},
		cells.Name(),
		cells.String("Policy", schedulingv1alpha3.CompositePodGroupSpec{}.SwaggerDoc()["schedulingPolicy"]),
		cells.String("Workload", "The workload that the group belongs to."),
		cells.Age(),
	)
}

func policy(gang bool) string {
	if gang {
		return "Gang"
	}
	return "Basic"
}

func workloadOf(ref *schedulingv1alpha3.WorkloadReference) string {
	if ref == nil {
		return "<none>"
	}
	return ref.WorkloadName
}

func podGroupStatus(g *podGroup) string {
	if c := meta.FindStatusCondition(g.Status.Conditions, schedulingv1alpha3.DisruptionTarget); c != nil {
		return c.Reason
	}
	switch c := meta.FindStatusCondition(g.Status.Conditions, schedulingv1alpha3.PodGroupInitiallyScheduled); {
	case c == nil:
		return "Pending"
	case c.Status == metav1.ConditionTrue:
		return "Scheduled"
	default:
		return "Unschedulable"
	}
}
