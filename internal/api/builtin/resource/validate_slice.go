package resource

import (
	"context"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func (v *validator) validateResourceSlice(_ context.Context, s *resourcev1.ResourceSlice) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&s.ObjectMeta, false, rules.Subdomain))
	v.slice(&s.Spec, nil, e)
	return e.List()
}

func (v *validator) validateResourceSliceUpdate(_ context.Context, s, old *resourcev1.ResourceSlice) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta))
	v.slice(&s.Spec, &old.Spec, e)
	e.Field("pool").Unchanged("name", s.Spec.Pool.Name, old.Spec.Pool.Name)
	e.Unchanged("driver", s.Spec.Driver, old.Spec.Driver)
	e.Unchanged("nodeName", s.Spec.NodeName, old.Spec.NodeName)
	return e.List()
}

func (v *validator) slice(s, old *resourcev1.ResourceSliceSpec, e rules.Errors) {
	e.CSIDriverName("driver", s.Driver)
	pool := e.Field("pool")
	if pool.Present("name", s.Pool.Name) {
		poolParts(s.Pool.Name, pool.Field("name"))
	}
	pool.Positive("resourceSliceCount", s.Pool.ResourceSliceCount)
	pool.Nonnegative("generation", s.Pool.Generation)

	n := nodeChoice(s.NodeName, s.NodeSelector, s.AllNodes, e)
	if s.NodeSelector != nil && len(s.NodeSelector.NodeSelectorTerms) != 1 {
		e.Field("nodeSelector").Field("nodeSelectorTerms").Invalid(s.NodeSelector.NodeSelectorTerms, "must have exactly one node selector term")
	}
	n += onlyTrue("perDeviceNodeSelection", s.PerDeviceNodeSelection, e)
	exactlyOne(n, "`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`", e)
	if s.SharedCounters != nil && s.Devices != nil {
		e.Invalid("", "either sharedCounters or devices")
	}
	limit := resourcev1.ResourceSliceMaxDevices
	if hasAdvancedDevices(s) {
		limit = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	perDevice := s.PerDeviceNodeSelection != nil && *s.PerDeviceNodeSelection
	set(s.Devices, limit, e.Field("devices"), func(d *resourcev1.Device) string { return d.Name },
		func(d *resourcev1.Device, e rules.Errors) { v.device(d, deviceNamed(old, d.Name), perDevice, e) })
	set(s.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, e.Field("sharedCounters"),
		func(c *resourcev1.CounterSet) string { return c.Name },
		func(c *resourcev1.CounterSet, e rules.Errors) {
			if e.Present("name", c.Name) {
				e.DNSLabel("name", c.Name)
			}
			counters(c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, e)
		})
	v.partitionType(s, old, e)
	skippedOperations(s.SkipNodeOperations, e)
}

// hasAdvancedDevices reports whether devices use features that make them larger.
func hasAdvancedDevices(s *resourcev1.ResourceSliceSpec) bool {
	for i := range s.Devices {
		d := &s.Devices[i]
		if len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 {
			return true
		}
		for _, a := range d.Attributes {
			if a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil {
				return true
			}
		}
	}
	return false
}

func deviceNamed(s *resourcev1.ResourceSliceSpec, name string) *resourcev1.Device {
	if s == nil {
		return nil
	}
	for i := range s.Devices {
		if s.Devices[i].Name == name {
			return &s.Devices[i]
		}
	}
	return nil
}

// nodeChoice validates the fields that say which nodes have the devices, and counts them.
func nodeChoice(name *string, selector *corev1.NodeSelector, all *bool, e rules.Errors) int {
	n := 0
	if name != nil {
		if *name == "" {
			e.Field("nodeName").Invalid(*name, "must not be empty if it is set")
		} else {
			n++
			e.Name("nodeName", *name, rules.Subdomain)
		}
	}
	if selector != nil {
		n++
		rules.NodeSelector(selector, false, e.Field("nodeSelector"))
	}
	return n + onlyTrue("allNodes", all, e)
}

// onlyTrue validates a flag that must be true or unset.
func onlyTrue(name string, b *bool, e rules.Errors) int {
	if b == nil {
		return 0
	}
	if !*b {
		e.Field(name).Invalid(*b, "must be either unset or set to true")
		return 0
	}
	return 1
}

func exactlyOne(n int, of string, e rules.Errors) {
	switch why := "exactly one of " + of + " is required"; {
	case n == 0:
		e.Required(why)
	case n > 1:
		e.Invalid("", why)
	}
}

func (v *validator) device(d, old *resourcev1.Device, perDevice bool, e rules.Errors) {
	e.DNSLabel("name", d.Name)
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		e.Invalid(n, "too many attributes and capacities")
	}
	values := 0
	for name, a := range d.Attributes {
		values += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
		// Errors in names are reported at the map.
		qualifiedName("attributes", string(name), e)
		attribute(&a, e.Field("attributes").Key(shortened(string(name))))
	}
	if values > resourcev1.ResourceSliceMaxAttributeValuesPerDevice {
		e.Invalid(values, "too many values of attributes")
	}
	if old == nil || !apiequality.Semantic.DeepEqual(d.Capacity, old.Capacity) {
		v.capacity(d, e)
	}
	if old == nil || !apiequality.Semantic.DeepEqual(d.Taints, old.Taints) {
		list(d.Taints, resourcev1.DeviceTaintsMaxLength, e.Field("taints"), taint)
	}
	set(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, e.Field("consumesCounters"),
		func(c *resourcev1.DeviceCounterConsumption) string { return c.CounterSet },
		func(c *resourcev1.DeviceCounterConsumption, e rules.Errors) {
			if e.Present("counterSet", c.CounterSet) {
				e.DNSLabel("counterSet", c.CounterSet)
			}
			counters(c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption, e)
			set(c.CompatibilityGroups, resourcev1.DeviceCompatibilityGroupsMaxSize, e.Field("compatibilityGroups"), self,
				func(group *string, e rules.Errors) { e.Messages(*group, validation.IsDNS1123Label(*group)) })
		})
	if perDevice {
		n := nodeChoice(d.NodeName, d.NodeSelector, d.AllNodes, e)
		exactlyOne(n, "`nodeName`, `nodeSelector`, `allNodes`", e)
	} else if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
		e.Invalid(nil, "nodes of a device need perDeviceNodeSelection")
	}
	bindingConditions(d.BindingConditions, d.BindingFailureConditions, e)
	nodeAllocatable(d, e.Field("nodeAllocatableResources"))
}

// shortened truncates long keys in paths.
func shortened(key string) string {
	const limit = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength
	if len(key) <= limit {
		return key
	}
	const left = limit - len("...")
	return key[:(left+1)/2] + "..." + key[len(key)-left/2:]
}

func counters(m map[string]resourcev1.Counter, limit int, e rules.Errors) {
	at := e.Field("counters")
	switch {
	case len(m) == 0:
		at.Required("")
	case len(m) > limit:
		at.AddError(field.TooMany(at.Path(), len(m), limit))
	default:
		for name := range m {
			at.Messages(name, validation.IsDNS1123Label(name))
		}
	}
}

var semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
	`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)

func attribute(a *resourcev1.DeviceAttribute, e rules.Errors) {
	n := 0
	count := func(set bool) bool {
		if set {
			n++
		}
		return set
	}
	text := func(s string, e rules.Errors) {
		if len(s) > resourcev1.DeviceAttributeMaxValueLength {
			e.TooLong(resourcev1.DeviceAttributeMaxValueLength)
		}
	}
	version := func(s string, e rules.Errors) {
		if !semver.MatchString(s) {
			e.Invalid(s, "must be a semantic version")
		}
		text(s, e)
	}
	values := func(name string, set bool, length int) {
		if count(set) && length == 0 {
			e.Field(name).Invalid("[]", "must not be empty if it is set")
		}
	}
	count(a.BoolValue != nil)
	count(a.IntValue != nil)
	if count(a.StringValue != nil) {
		text(*a.StringValue, e.Field("string"))
	}
	if count(a.VersionValue != nil) {
		version(*a.VersionValue, e.Field("version"))
	}
	values("bools", a.BoolValues != nil, len(a.BoolValues))
	values("ints", a.IntValues != nil, len(a.IntValues))
	values("strings", a.StringValues != nil, len(a.StringValues))
	values("versions", a.VersionValues != nil, len(a.VersionValues))
	for i, s := range a.StringValues {
		text(s, e.Field("strings").Item(i))
	}
	for i, s := range a.VersionValues {
		version(s, e.Field("versions").Item(i))
	}
	if n != 1 {
		e.Invalid("", "must specify one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`")
	}
}
