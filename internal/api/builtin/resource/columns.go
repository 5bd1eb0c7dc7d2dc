package resource

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func deviceClassTable() *engine.Table {
	return engine.TableOf(deviceClassRow, cells.Name(), cells.Age())
}

func deviceClassRow(c *resourcev1.DeviceClass) []any {
	return []any{c.Name, cells.Since(c.CreationTimestamp)}
}

func resourceClaimTable() *engine.Table {
	return engine.TableOf(resourceClaimRow,
		cells.Name(),
		cells.String("State", "What has become of the claim: pending, allocated, reserved, deleted."),
		cells.Age(),
	)
}

func resourceClaimRow(c *resourcev1.ResourceClaim) []any {
	var state []string
	if c.DeletionTimestamp != nil {
		state = append(state, "deleted")
	}
	switch {
	case c.Status.Allocation == nil && c.DeletionTimestamp == nil:
		state = append(state, "pending")
	case c.Status.Allocation != nil && len(c.Status.ReservedFor) > 0:
		state = append(state, "allocated", "reserved")
	case c.Status.Allocation != nil:
		state = append(state, "allocated")
	}
	return []any{c.Name, strings.Join(state, ","), cells.Since(c.CreationTimestamp)}
}

func resourceClaimTemplateTable() *engine.Table {
	return engine.TableOf(resourceClaimTemplateRow, cells.Name(), cells.Age())
}

func resourceClaimTemplateRow(t *resourcev1.ResourceClaimTemplate) []any {
	return []any{t.Name, cells.Since(t.CreationTimestamp)}
}

func taintRuleTable() *engine.Table {
	doc := resourcev1.DeviceTaint{}.SwaggerDoc()
	return engine.TableOf(taintRuleRow,
		cells.Name(),
		cells.String("Key", doc["key"]),
		cells.String("Value", doc["value"]),
		cells.String("Effect", doc["effect"]),
		cells.String("TimeAdded", doc["timeAdded"]),
		cells.Age(),
	)
}

func taintRuleRow(r *resourcev1.DeviceTaintRule) []any {
	t, added := &r.Spec.Taint, ""
	if t.TimeAdded != nil {
		added = cells.Since(*t.TimeAdded)
	}
	return []any{r.Name, t.Key, t.Value, string(t.Effect), added, cells.Since(r.CreationTimestamp)}
}

func resourceSliceTable() *engine.Table {
	spec := resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	return engine.TableOf(resourceSliceRow,
		cells.Name(),
		cells.String("Node", spec["nodeName"]),
		cells.String("Driver", spec["driver"]),
		cells.String("Pool", resourcev1.ResourcePool{}.SwaggerDoc()["name"]),
		cells.Age(),
	)
}

func resourceSliceRow(s *resourcev1.ResourceSlice) []any {
	return []any{
		s.Name, cells.Deref(s.Spec.NodeName, ""), s.Spec.Driver, s.Spec.Pool.Name, cells.Since(s.CreationTimestamp),
	}
}
