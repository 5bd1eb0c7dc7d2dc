package controllers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds of what is told of a pool.
const (
	maxPoolList    = 32
	maxPoolMessage = 256
)

// devicePool is the devices of a pool that its newest slices have, and what is used of them.
type devicePool struct {
	driver, name string
	generation   int64
	slices       int64 // seen, of those expected
	expected     int64
	node         string // that of all slices; "": none, or several
	nodes        bool   // of several nodes
	devices      []poolDevice
	unavailable  int32
	counters     []resourcev1.CounterSet
	used         map[string]bool // devices, by name
	consumed     map[resourcev1.QualifiedName]resource.Quantity
}

// poolDevice is a device, and the attribute by whose value its slice groups devices; "": it has none.
type poolDevice struct {
	*resourcev1.Device
	attribute string
}

func newDevicePool(s *resourcev1.ResourceSlice) *devicePool {
	return &devicePool{
		driver: s.Spec.Driver, name: s.Spec.Pool.Name, generation: s.Spec.Pool.Generation, expected: s.Spec.Pool.ResourceSliceCount,
		node: nodeOf(s), used: map[string]bool{}, consumed: map[resourcev1.QualifiedName]resource.Quantity{},
	}
}

func nodeOf(s *resourcev1.ResourceSlice) string {
	if s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}

// add adds a slice.
func (p *devicePool) add(s *resourcev1.ResourceSlice, rules []*resourcev1.DeviceTaintRule) {
	p.slices++
	p.nodes = p.nodes || nodeOf(s) != p.node
	p.counters = append(p.counters, s.Spec.SharedCounters...)
	attribute := ""
	if a := s.Spec.PartitionTypeAttribute; a != nil {
		attribute = string(*a)
	}
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		p.devices = append(p.devices, poolDevice{d, attribute})
		if slices.ContainsFunc(d.Taints, func(t resourcev1.DeviceTaint) bool { return keepsOff(t.Effect) }) ||
			slices.ContainsFunc(rules, func(r *resourcev1.DeviceTaintRule) bool { return p.taints(r, d.Name) }) {
			p.unavailable++
		}
	}
}

// keepsOff reports whether nothing is scheduled where a taint has an effect.
func keepsOff(e resourcev1.DeviceTaintEffect) bool {
	return e == resourcev1.DeviceTaintEffectNoSchedule || e == resourcev1.DeviceTaintEffectNoExecute
}

// taints reports whether a rule keeps everything off a device.
func (p *devicePool) taints(r *resourcev1.DeviceTaintRule, device string) bool {
	is := func(want *string, name string) bool { return want == nil || *want == name }
	s := r.Spec.DeviceSelector
	return s != nil && keepsOff(r.Spec.Taint.Effect) && is(s.Driver, p.driver) && is(s.Pool, p.name) && is(s.Device, device)
}

// use counts what a claim was given. Administrators look at devices without using them.
func (p *devicePool) use(r *resourcev1.DeviceRequestAllocationResult) {
	if r.AdminAccess != nil && *r.AdminAccess {
		return
	}
	p.used[r.Device] = true
	for name, quantity := range r.ConsumedCapacity {
		addTo(p.consumed, name, quantity)
	}
}

func addTo(sums map[resourcev1.QualifiedName]resource.Quantity, name resourcev1.QualifiedName, q resource.Quantity) {
	sum := sums[name].DeepCopy()
	sum.Add(q)
	sums[name] = sum
}

// incomplete reports whether slices are missing.
func (p *devicePool) incomplete() bool { return p.slices < p.expected }

// status is what is told of a complete pool. fallback is the attribute by which devices are grouped where no slice names one.
func (p *devicePool) status(fallback *string) resourcev1alpha3.PoolStatus {
	out := resourcev1alpha3.PoolStatus{
		Driver: p.driver, PoolName: p.name, Generation: p.generation, ResourceSliceCount: new(int32(p.slices)),
		TotalDevices: new(int32(len(p.devices))), AllocatedDevices: new(int32(len(p.used))), UnavailableDevices: new(p.unavailable),
		AvailableDevices: new(max(0, int32(len(p.devices)-len(p.used))-p.unavailable)),
	}
	if p.node != "" && !p.nodes {
		out.NodeName = &p.node
	}
	partitions, wrong := p.partitions(fallback)
	shareable, alsoWrong := p.shareable()
	out.ShareableSummary = shareable
	if wrong = cmp.Or(wrong, alsoWrong); wrong != "" {
		message := strings.ToValidUTF8(wrong[:min(len(wrong), maxPoolMessage)], "")
		out.ValidationError = &message
		return out
	}
	out.PartitionSummary = partitions
	return out
}

// partition are devices that share counters with others, by the value of an attribute.
type partition struct{ attribute, value string }

// partitions tells of each kind of partition how many there are, and how many more can be allocated. wrong says why that
// cannot be told.
func (p *devicePool) partitions(fallback *string) (out []resourcev1alpha3.PartitionTypeStatus, wrong string) {
	attributeOf := p.grouping(fallback)
	if !slices.ContainsFunc(p.devices, func(d poolDevice) bool { return attributeOf(d) != "" }) {
		return nil, ""
	}
	if len(p.counters) == 0 {
		return nil, fmt.Sprintf("PartitionTypeMissing: pool %s/%s declares partitionTypeAttribute but publishes no sharedCounters", p.driver, p.name)
	}
	groups := map[partition][]poolDevice{}
	for _, d := range p.devices {
		attribute := attributeOf(d)
		if len(d.ConsumesCounters) == 0 || attribute == "" {
			continue
		}
		value, ok := p.attribute(d, attribute)
		if !ok {
			return nil, fmt.Sprintf("PartitionTypeMissing: device %q in pool %s/%s does not carry partition type attribute %q", d.Name, p.driver, p.name, attribute)
		}
		kind := partition{attribute, value}
		if others := groups[kind]; len(others) > 0 && costOf(others[0]) != costOf(d) {
			return nil, fmt.Sprintf("PartitionCostMismatch: devices of partition type %q in pool %s/%s consume different counters", value, p.driver, p.name)
		}
		groups[kind] = append(groups[kind], d)
	}
	if len(groups) > maxPoolList {
		return nil, fmt.Sprintf("PartitionSummaryOverCap: pool %s/%s has %d partition types, exceeding the maximum of %d", p.driver, p.name, len(groups), maxPoolList)
	}
	out = []resourcev1alpha3.PartitionTypeStatus{}
	for kind, devices := range groups {
		out = append(out, resourcev1alpha3.PartitionTypeStatus{Attribute: kind.attribute, Type: kind.value, Total: new(int32(len(devices))), Allocatable: new(p.allocatable(devices))})
	}
	slices.SortFunc(out, func(a, b resourcev1alpha3.PartitionTypeStatus) int {
		return cmp.Or(cmp.Compare(a.Attribute, b.Attribute), cmp.Compare(a.Type, b.Type))
	})
	return out, ""
}

// grouping returns by which attribute a device is grouped; "": it is not. fallback is for pools of which no slice names one.
func (p *devicePool) grouping(fallback *string) func(poolDevice) string {
	if fallback != nil && !slices.ContainsFunc(p.devices, func(d poolDevice) bool { return d.attribute != "" }) {
		return func(poolDevice) string { return *fallback }
	}
	return func(d poolDevice) string { return d.attribute }
}

// attribute returns the value of a device's attribute. One of the driver's own domain may be named without it.
func (p *devicePool) attribute(d poolDevice, name string) (string, bool) {
	a, ok := d.Attributes[resourcev1.QualifiedName(name)]
	if own, is := strings.CutPrefix(name, p.driver+"/"); !ok && is {
		a, ok = d.Attributes[resourcev1.QualifiedName(own)]
	}
	if !ok || a.StringValue == nil {
		return "", false
	}
	return *a.StringValue, true
}

// counter is one of a pool's shared counters.
type counter struct{ set, name string }

// allocatable returns how many of some devices can still be allocated, if no others are.
func (p *devicePool) allocatable(devices []poolDevice) (n int32) {
	left := p.left()
	for _, d := range devices {
		if !p.used[d.Name] && fits(d, left) {
			take(d, left)
			n++
		}
	}
	return n
}

// left are the counters of which devices in use have taken their part.
func (p *devicePool) left() map[counter]resource.Quantity {
	left := map[counter]resource.Quantity{}
	for _, set := range p.counters {
		for name, c := range set.Counters {
			left[counter{set.Name, name}] = c.Value.DeepCopy()
		}
	}
	for _, d := range p.devices {
		if p.used[d.Name] {
			take(d, left)
		}
	}
	return left
}

// costs calls f with what a device takes of counters, until it returns false.
func costs(d poolDevice, f func(counter, resource.Quantity) bool) {
	for _, c := range d.ConsumesCounters {
		for name, cost := range c.Counters {
			if !f(counter{c.CounterSet, name}, cost.Value) {
				return
			}
		}
	}
}

func fits(d poolDevice, left map[counter]resource.Quantity) bool {
	ok := true
	costs(d, func(c counter, cost resource.Quantity) bool {
		has, is := left[c]
		ok = is && has.Cmp(cost) >= 0
		return ok
	})
	return ok
}

func take(d poolDevice, left map[counter]resource.Quantity) {
	costs(d, func(c counter, cost resource.Quantity) bool {
		if has, is := left[c]; is {
			has.Sub(cost)
			left[c] = has
		}
		return true
	})
}

// costOf identifies what a device takes of counters.
func costOf(d poolDevice) string {
	var all []string
	costs(d, func(c counter, cost resource.Quantity) bool {
		all = append(all, c.set+"/"+c.name+"="+cost.String())
		return true
	})
	slices.Sort(all)
	return strings.Join(all, ",")
}

// shareable tells of the devices that several claims may have; nil: there are none. wrong says why that cannot be told.
func (p *devicePool) shareable() (out *resourcev1alpha3.ShareableSummaryStatus, wrong string) {
	var free, partly int32
	total := map[resourcev1.QualifiedName]resource.Quantity{}
	for _, d := range p.devices {
		if d.AllowMultipleAllocations == nil || !*d.AllowMultipleAllocations {
			continue
		}
		if p.used[d.Name] {
			partly++
		} else {
			free++
		}
		for name, c := range d.Capacity {
			addTo(total, name, c.Value)
		}
	}
	if free+partly == 0 {
		return nil, ""
	}
	if len(total) > maxPoolList {
		return nil, fmt.Sprintf("ShareableSummaryOverCap: pool %s/%s has %d shareable capacity keys, exceeding the maximum of %d", p.driver, p.name, len(total), maxPoolList)
	}
	out = &resourcev1alpha3.ShareableSummaryStatus{FullyAvailableDevices: &free, PartiallyAvailableDevices: &partly}
	for _, name := range slices.Sorted(maps.Keys(total)) {
		sum, consumed := total[name], p.consumed[name].DeepCopy()
		left := sum.DeepCopy()
		if left.Sub(consumed); left.Sign() < 0 {
			left = *resource.NewQuantity(0, sum.Format)
		}
		out.Capacity = append(out.Capacity, resourcev1alpha3.ShareableCapacityStatus{Name: string(name), Total: &sum, Consumed: &consumed, Available: &left})
	}
	return out, ""
}
