package discovery

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"EndpointSlice": celltest.For[discoveryv1.EndpointSlice](endpointSliceTable()),
	})
}
