package scheduling

import (
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/kanzen-io/kanzen/internal/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func priorityClassTable() *engine.Table {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return &engine.Table{
		Columns: []cells.Column{
			cells.Name(),
			cells.Integer("Value", doc["value"]),
			cells.Boolean("Global-Default", doc["globalDefault"]),
			cells.Age(),
			cells.String("PreemptionPolicy", doc["preemptionPolicy"]),
		},
		Row: engine.Row(priorityClassRow),
	}
}

func priorityClassRow(c *schedulingv1.PriorityClass) []any {
	return []any{
		c.Name, int64(c.Value), c.GlobalDefault, cells.Since(c.CreationTimestamp), cells.Deref(c.PreemptionPolicy, ""),
	}
}
