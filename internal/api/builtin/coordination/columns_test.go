package coordination

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"Lease":          celltest.For[coordinationv1.Lease](leaseTable()),
		"LeaseCandidate": celltest.For[coordinationv1beta1.LeaseCandidate](candidateTable()),
	})
}
