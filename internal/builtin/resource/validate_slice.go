package resource

import (
	"context"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/rules"
)

func validateResourceSlice(_ context.Context, s *resourcev1.ResourceSlice) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&s.ObjectMeta, false, rules.Subdomain))
	slice(&s.Spec, nil, e)
	return e.List()
}

func validateResourceSliceUpdate(_ context.Context, s, old *resourcev1.ResourceSlice) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta))
	slice(&s.Spec, &old.Spec, e)
	e.Field("pool").Unchanged("name", s.Spec.Pool.Name, old.Spec.Pool.Name)
	e.Unchanged("driver", s.Spec.Driver, old.Spec.Driver)
	e.Unchanged("nodeName", s.Spec.NodeName, old.Spec.NodeName)
	return e.List()
}

func slice(s, old *resourcev1.ResourceSliceSpec, e rules.Errors) {
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
		func(d *resourcev1.Device, e rules.Errors) { device(d, deviceNamed(old, d.Name), perDevice, e) })
	set(s.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, e.Field("sharedCounters"),
		func(c *resourcev1.CounterSet) string { return c.Name },
		func(c *resourcev1.CounterSet, e rules.Errors) {
			if e.Present("name", c.Name) {
				e.DNSLabel("name", c.Name)
			}
			counters(c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, e)
		})
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

func device(d, old *resourcev1.Device, perDevice bool, e rules.Errors) {
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
	shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	for name, c := range d.Capacity {
		qualifiedName("capacity", string(name), e)
		if c.RequestPolicy == nil {
			continue
		}
		at := e.Field("capacity").Key(shortened(string(name))).Field("requestPolicy")
		if shared {
			requestPolicy(c.RequestPolicy, c.Value, at)
		} else {
			at.Forbidden("needs allowMultipleAllocations")
		}
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
		})
	if perDevice {
		n := nodeChoice(d.NodeName, d.NodeSelector, d.AllNodes, e)
		exactlyOne(n, "`nodeName`, `nodeSelector`, `allNodes`", e)
	} else if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
		e.Invalid(nil, "nodes of a device need perDeviceNodeSelection")
	}
	bindingConditions(d.BindingConditions, d.BindingFailureConditions, e)
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
		at.AddError(field.TooMany(at.Path, len(m), limit))
	default:
		for name := range m {
			at.Messages(name, validation.IsDNS1123Label(name))
		}
	}
}

// maxValidValues bounds the valid values in a policy.
const maxValidValues = 10

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
		e.Invalid("", "exactly one value must be specified")
	}
}

func requestPolicy(p *resourcev1.CapacityRequestPolicy, capacity resource.Quantity, e rules.Errors) {
	switch {
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		e.Forbidden("either validValues or validRange")
	case len(p.ValidValues) == 0 && p.ValidRange == nil:
	case p.Default == nil:
		e.Field("default").Required("with validValues or validRange")
	case p.ValidRange != nil:
		validRange(p.ValidRange, *p.Default, capacity, e.Field("validRange"))
	default:
		validValues(p.ValidValues, *p.Default, capacity, e.Field("validValues"))
	}
}

func validValues(values []resource.Quantity, standard, capacity resource.Quantity, e rules.Errors) {
	for i := 1; i < len(values); i++ {
		if values[i-1].Cmp(values[i]) > 0 {
			e.Item(i).Invalid(values[i].String(), "must ascend")
		}
	}
	found := false
	set(values, maxValidValues, e, func(q *resource.Quantity) int64 { return q.Value() },
		func(q *resource.Quantity, e rules.Errors) {
			if q.Cmp(capacity) > 0 {
				e.Invalid(q.String(), "is more than the capacity")
			}
			found = found || q.Cmp(standard) == 0
		})
	if !found {
		e.Invalid(standard.String(), "does not have the default")
	}
}

func validRange(r *resourcev1.CapacityRequestPolicyRange, standard, capacity resource.Quantity, e rules.Errors) {
	lo, hi, step := e.Field("min"), e.Field("max"), e.Field("step")
	if r.Min == nil {
		lo.Required("")
		return
	}
	if r.Min.Cmp(capacity) > 0 {
		lo.Invalid(r.Min.String(), "is more than the capacity")
	}
	if standard.Cmp(*r.Min) < 0 {
		lo.Invalid(standard.String(), "is more than the default")
	}
	if r.Max != nil {
		if r.Min.Cmp(*r.Max) > 0 {
			hi.Invalid(r.Max.String(), "is less than min")
		}
		if r.Max.Cmp(capacity) > 0 {
			hi.Invalid(r.Max.String(), "is more than the capacity")
		}
		if standard.Cmp(*r.Max) > 0 {
			hi.Invalid(standard.String(), "is less than the default")
		}
	}
	if r.Step == nil {
		return
	}
	first := r.Min.DeepCopy()
	first.Add(*r.Step)
	if first.Cmp(capacity) > 0 {
		step.Invalid(r.Step.String(), "leads beyond the capacity")
	}
	reaches := func(q resource.Quantity) bool {
		s := r.Step.Value()
		return s != 0 && (q.Value()-r.Min.Value())%s == 0
	}
	if !reaches(standard) {
		step.Invalid(standard.String(), "does not lead to the default")
	}
	if r.Max != nil && !reaches(*r.Max) {
		step.Invalid(r.Max.String(), "does not lead to max")
	}
}
