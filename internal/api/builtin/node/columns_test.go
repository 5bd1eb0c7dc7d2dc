package node

import (
	"testing"

	nodev1 "k8s.io/api/node/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"RuntimeClass": celltest.For[nodev1.RuntimeClass](runtimeClassTable()),
	})
}
