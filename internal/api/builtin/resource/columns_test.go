package resource

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
)

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{
		"DeviceClass":               celltest.For[resourcev1.DeviceClass](deviceClassTable()),
		"DeviceTaintRule":           celltest.For[resourcev1.DeviceTaintRule](taintRuleTable()),
		"ResourceClaim":             celltest.For[resourcev1.ResourceClaim](resourceClaimTable()),
		"ResourceClaimTemplate":     celltest.For[resourcev1.ResourceClaimTemplate](resourceClaimTemplateTable()),
		"ResourceSlice":             celltest.For[resourcev1.ResourceSlice](resourceSliceTable()),
		"ResourcePoolStatusRequest": celltest.For[resourcev1alpha3.ResourcePoolStatusRequest](poolStatusTable()),
	})
}
