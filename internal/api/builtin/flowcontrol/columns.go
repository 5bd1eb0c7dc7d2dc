package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func flowSchemaTable() *engine.Table {
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	return engine.TableOf(flowSchemaRow,
		cells.Name(),
		cells.String("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
		cells.String("MatchingPrecedence", spec["matchingPrecedence"]),
		cells.String("DistinguisherMethod", spec["distinguisherMethod"]),
		cells.Age(),
		cells.String("MissingPL", "Whether the priority level that it names is missing."),
	)
}

func flowSchemaRow(s *flowcontrolv1.FlowSchema) []any {
	method := cells.None
	if m := s.Spec.DistinguisherMethod; m != nil {
		method = string(m.Type)
	}
	missing := "?"
	for _, c := range s.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			missing = string(c.Status)
			break
		}
	}
	return []any{
		s.Name, s.Spec.PriorityLevelConfiguration.Name, int64(s.Spec.MatchingPrecedence), method,
		cells.Since(s.CreationTimestamp), missing,
	}
}

func priorityLevelConfigurationTable() *engine.Table {
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	return engine.TableOf(priorityLevelConfigurationRow,
		cells.Name(),
		cells.String("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
		cells.String("NominalConcurrencyShares",
			flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]),
		cells.String("Queues", queuing["queues"]),
		cells.String("HandSize", queuing["handSize"]),
		cells.String("QueueLengthLimit", queuing["queueLengthLimit"]),
		cells.Age(),
	)
}

func priorityLevelConfigurationRow(c *flowcontrolv1.PriorityLevelConfiguration) []any {
	var shares, queues, hand, limit any = cells.None, cells.None, cells.None, cells.None
	if l := c.Spec.Limited; l != nil {
		if l.NominalConcurrencyShares != nil {
			shares = int64(*l.NominalConcurrencyShares)
		}
		if q := l.LimitResponse.Queuing; q != nil {
			queues, hand, limit = int64(q.Queues), int64(q.HandSize), int64(q.QueueLengthLimit)
		}
	}
	return []any{c.Name, string(c.Spec.Type), shares, queues, hand, limit, cells.Since(c.CreationTimestamp)}
}
