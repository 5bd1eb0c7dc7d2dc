package resource

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// nodeAllocatable validates which resources of a node a device is, or needs in addition.
func nodeAllocatable(d *resourcev1.Device, e rules.Errors) {
	for name, r := range d.NodeAllocatableResources {
		at := e.Key(string(name))
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory && !rules.IsHugePages(name) {
			at.Invalid(name, "must be cpu, memory or huge pages")
		}
		if r.Mapping == nil && r.Overhead == nil {
			at.Required("mapping or overhead")
		}
		if r.Mapping != nil {
			allocatableMapping(r.Mapping, d.Capacity, at.Field("mapping"))
		}
		if r.Overhead != nil {
			allocatableOverhead(r.Overhead, at.Field("overhead"))
		}
	}
}

// allocatableMapping validates how much of a resource an allocation is: a multiple of a capacity, or of the devices.
func allocatableMapping(m *resourcev1.NodeAllocatableMapping, capacity map[resourcev1.QualifiedName]resourcev1.DeviceCapacity, e rules.Errors) {
	if (m.CapacityKey == nil) == (m.DeviceMultiplier == nil) {
		e.Invalid("", "exactly one of `capacityKey`, `deviceMultiplier` is required")
	}
	positive := func(name string, q *resource.Quantity) {
		if q != nil && q.Sign() <= 0 {
			e.Field(name).Invalid(q.String(), "must be positive")
		}
	}
	positive("deviceMultiplier", m.DeviceMultiplier)
	if m.CapacityKey == nil {
		if m.CapacityMultiplier != nil {
			e.Field("capacityKey").Required("with capacityMultiplier")
		}
		return
	}
	at := e.Field("capacityKey")
	if _, found := capacity[*m.CapacityKey]; *m.CapacityKey == "" {
		at.Invalid("", "must not be empty if it is set")
	} else if !found {
		at.NotFound(*m.CapacityKey)
	}
	if m.CapacityMultiplier == nil {
		e.Field("capacityMultiplier").Required("with capacityKey")
	}
	positive("capacityMultiplier", m.CapacityMultiplier)
}

func allocatableOverhead(o *resourcev1.NodeAllocatableOverhead, e rules.Errors) {
	if o.PerPod == nil && o.PerContainer == nil {
		e.Invalid("", "at least one of perPod, perContainer is required")
	}
	for name, q := range map[string]*resource.Quantity{"perPod": o.PerPod, "perContainer": o.PerContainer} {
		if q != nil && q.Sign() < 0 {
			e.Field(name).Invalid(q.String(), "must not be negative")
		}
	}
}
