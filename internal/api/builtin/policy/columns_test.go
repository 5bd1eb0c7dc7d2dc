package policy

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"PodDisruptionBudget": celltest.For[policyv1.PodDisruptionBudget](podDisruptionBudgetTable()),
	})
}
