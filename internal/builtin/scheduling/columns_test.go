package scheduling

import (
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/kanzen-io/kanzen/internal/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"PriorityClass": celltest.For[schedulingv1.PriorityClass](priorityClassTable()),
	})
}
