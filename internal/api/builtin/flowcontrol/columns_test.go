package flowcontrol

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"FlowSchema":                 celltest.For[flowcontrolv1.FlowSchema](flowSchemaTable()),
		"PriorityLevelConfiguration": celltest.For[flowcontrolv1.PriorityLevelConfiguration](priorityLevelConfigurationTable()),
	})
}
