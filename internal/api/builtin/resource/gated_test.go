package resource

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// everything has all features on.
func everything(t *testing.T) Deps {
	t.Helper()
	gates, err := features.Parse([]string{"AllAlpha=true,AllBeta=true"}, features.Now())
	if err != nil {
		t.Fatal(err)
	}
	return Deps{Now: time.Now, Gates: gates}
}

const slice = `
metadata: {name: s}
spec: {driver: d.example.com, nodeName: node-1, pool: {name: p, generation: 1, resourceSliceCount: 1}, devices: [{name: a}]}
`

func TestSkippedOperations(t *testing.T) {
	rulestest.Of(t, Resources(everything(t)), "resourceslices", slice).Create(t, []rulestest.Case{
		{Name: "all", Edit: `{spec: {skipNodeOperations: ["*", NodePrepareResources]}}`},
		{Name: "unknown", Edit: `{spec: {skipNodeOperations: [Foo]}}`, Want: []string{"spec.skipNodeOperations[0] NotSupported"}},
		{Name: "twice", Edit: `{spec: {skipNodeOperations: ["*", "*"]}}`, Want: []string{"spec.skipNodeOperations[1] Duplicate"}},
		{Name: "prepared only", Edit: `{spec: {skipNodeOperations: [NodePrepareResources]}}`, Want: []string{"spec.skipNodeOperations Invalid"}},
	})
}

func TestPartitionType(t *testing.T) {
	of := func(name, devices string) string {
		return fmt.Sprintf(`{spec: {partitionTypeAttribute: %s, devices: [%s]}}`, name, devices)
	}
	const consumes = `consumesCounters: [{counterSet: c, counters: {x: {value: "1"}}}]`
	rulestest.Of(t, Resources(everything(t)), "resourceslices", slice).Create(t, []rulestest.Case{
		{Name: "short name", Edit: of("d.example.com/type", `{name: a, attributes: {type: {string: x}}, `+consumes+`}, {name: b}`)},
		{Name: "missing", Edit: of("d.example.com/type", `{name: a, `+consumes+`}`),
			Want: []string{"spec.devices[0].attributes[d.example.com/type] Required"}},
		{Name: "integer", Edit: of("e.example.com/type", `{name: a, attributes: {e.example.com/type: {int: 1}}, `+consumes+`}`),
			Want: []string{"spec.devices[0].attributes[e.example.com/type] Invalid"}},
		{Name: "no domain", Edit: of("type", `{name: a, `+consumes+`}`), Want: []string{"spec.partitionTypeAttribute Invalid"}},
		{Name: "no counters", Edit: of("d.example.com/type", `{name: a}`), Want: []string{"spec.partitionTypeAttribute Invalid"}},
	})
	rulestest.Of(t, Resources(Deps{Now: time.Now}), "resourceslices", slice).Create(t, []rulestest.Case{
		{Name: "off", Edit: of("d.example.com/type", `{name: a, attributes: {type: {string: x}}, `+consumes+`}`),
			Want: []string{"spec.partitionTypeAttribute Forbidden"}},
	})
}

func TestCompatibilityGroups(t *testing.T) {
	of := func(groups string) string {
		return fmt.Sprintf(`{spec: {devices: [{name: a, consumesCounters: [{counterSet: c, compatibilityGroups: [%s], counters: {x: {value: "1"}}}]}]}}`, groups)
	}
	const at = "spec.devices[0].consumesCounters[0].compatibilityGroups"
	rulestest.Of(t, Resources(everything(t)), "resourceslices", slice).Create(t, []rulestest.Case{
		{Name: "two", Edit: of("a, b")},
		{Name: "three", Edit: of("a, b, c"), Want: []string{at + " TooMany"}},
		{Name: "same", Edit: of("a, a"), Want: []string{at + "[1] Duplicate"}},
		{Name: "name", Edit: of("A"), Want: []string{at + "[0] Invalid"}},
	})
}

func TestNodeAllocatable(t *testing.T) {
	of := func(name, r string) string {
		return fmt.Sprintf(`{spec: {devices: [{name: a, capacity: {m: {value: 1Gi}}, nodeAllocatableResources: {%s: %s}}]}}`, name, r)
	}
	at := func(name, field, fault string) []string {
		return []string{strings.TrimSuffix("spec.devices[0].nodeAllocatableResources["+name+"]."+field, ".") + " " + fault}
	}
	rulestest.Of(t, Resources(everything(t)), "resourceslices", slice).Create(t, []rulestest.Case{
		{Name: "devices", Edit: of("cpu", `{mapping: {deviceMultiplier: "2"}}`)},
		{Name: "capacity", Edit: of("memory", `{mapping: {capacityKey: m, capacityMultiplier: "1"}, overhead: {perPod: "0"}}`)},
		{Name: "other resource", Edit: of("example.com/x", `{mapping: {deviceMultiplier: "2"}}`), Want: at("example.com/x", "", "Invalid")},
		{Name: "nothing", Edit: of("cpu", `{}`), Want: at("cpu", "", "Required")},
		{Name: "neither", Edit: of("cpu", `{mapping: {}}`), Want: at("cpu", "mapping", "Invalid")},
		{Name: "both", Edit: of("cpu", `{mapping: {deviceMultiplier: "1", capacityKey: m, capacityMultiplier: "1"}}`), Want: at("cpu", "mapping", "Invalid")},
		{Name: "unknown key", Edit: of("cpu", `{mapping: {capacityKey: x, capacityMultiplier: "1"}}`), Want: at("cpu", "mapping.capacityKey", "NotFound")},
		{Name: "no multiplier", Edit: of("cpu", `{mapping: {capacityKey: m}}`), Want: at("cpu", "mapping.capacityMultiplier", "Required")},
		{Name: "zero", Edit: of("cpu", `{mapping: {deviceMultiplier: "0"}}`), Want: at("cpu", "mapping.deviceMultiplier", "Invalid")},
		{Name: "no overhead", Edit: of("cpu", `{overhead: {}}`), Want: at("cpu", "overhead", "Invalid")},
		{Name: "negative", Edit: of("cpu", `{overhead: {perContainer: "-1"}}`), Want: at("cpu", "overhead.perContainer", "Invalid")},
	})
}

// Ranges of capacity are compared in units, or in thousandths if they have fractions of units and the feature is on.
func TestCapacityRanges(t *testing.T) {
	of := func(standard, least, most, step string) string {
		return fmt.Sprintf(`{spec: {devices: [{name: a, allowMultipleAllocations: true, capacity: {m: {value: 16Ei, requestPolicy:
			{default: %q, validRange: {min: %q, max: %q, step: %q}}}}}]}}`, standard, least, most, step)
	}
	at := func(field string) string {
		return "spec.devices[0].capacity[m].requestPolicy.validRange." + field + " Invalid"
	}
	on := rulestest.Of(t, Resources(everything(t)), "resourceslices", slice)
	on.Create(t, []rulestest.Case{
		{Name: "units", Edit: of("2", "1", "5", "1")},
		{Name: "thousandths", Edit: of("300m", "100m", "500m", "200m")},
		{Name: "not reached", Edit: of("250m", "100m", "500m", "200m"), Want: []string{at("step")}},
		{Name: "too fine", Edit: of("300u", "100m", "500m", "200m"), Want: []string{at("default")}},
		{Name: "no step", Edit: of("2", "1", "5", "0"), Want: []string{at("step")}},
		{Name: "negative", Edit: of("2", "-1", "5", "1"), Want: []string{at("min")}},
		{Name: "less than min", Edit: of("0", "1", "5", "1"), Want: []string{at("default")}},
		{Name: "more than max", Edit: of("6", "1", "5", "1"), Want: []string{at("default")}},
	})
	rulestest.Of(t, Resources(Deps{Now: time.Now}), "resourceslices", slice).Create(t, []rulestest.Case{
		{Name: "rounded", Edit: of("300m", "100m", "500m", "200m")},
	})
}

func TestDerivedAttributes(t *testing.T) {
	of := func(attributes, constraints string) string {
		return fmt.Sprintf(`{spec: {devices: {requests: [{name: r, exactly: {deviceClassName: a, derivedAttributes: [%s]}}], constraints: [%s]}}}`, attributes, constraints)
	}
	const numa, matched = `{name: x.example.com/numa, expression: "device.driver"}`, `{matchAttribute: x.example.com/numa}`
	const at = "spec.devices.requests[0].exactly.derivedAttributes"
	d := everything(t)
	rulestest.Of(t, Resources(d), "resourceclaims", claim).Create(t, []rulestest.Case{
		{Name: "good", Edit: of(numa, matched)},
		{Name: "constraint of the request", Edit: of(numa, `{requests: [r], matchAttribute: x.example.com/numa}`)},
		{Name: "unused", Edit: of(numa, ""), Want: []string{at + "[0].name Invalid"}},
		{Name: "twice", Edit: of(numa+","+numa, matched), Want: []string{at + "[1] Duplicate"}},
		{Name: "empty", Edit: of("{}", ""), Want: []string{at + "[0].expression Required", at + "[0].name Required"}},
		{Name: "map", Edit: of(`{name: x.example.com/numa, expression: "device.attributes"}`, matched), Want: []string{at + "[0].expression Invalid"}},
	})
	of = func(attributes, constraints string) string {
		return fmt.Sprintf(`{spec: {devices: {requests: [{name: r, firstAvailable: [{name: s, deviceClassName: a, derivedAttributes: [%s]}], exactly: null}], constraints: [%s]}}}`, attributes, constraints)
	}
	rulestest.Of(t, Resources(d), "resourceclaims", claim).Create(t, []rulestest.Case{
		{Name: "constraint of the subrequest", Edit: of(numa, `{requests: [r/s], matchAttribute: x.example.com/numa}`)},
		{Name: "constraint of the whole request", Edit: of(numa, `{requests: [r], matchAttribute: x.example.com/numa}`)},
	})
}

// What is stored was compiled when it was new; the rules for new expressions may be stricter by now.
func TestStoredSelectors(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{Now: time.Now}), "deviceclasses", `{metadata: {name: c}}`)
	const stored, other = `{spec: {selectors: [{cel: {expression: no such thing}}]}}`, `{spec: {selectors: [{cel: {expression: nor this}}]}}`
	old := k.Decoded(t, stored)
	if _, faults := k.UpdatedFrom(t, "", old, stored); len(faults) > 0 {
		t.Errorf("what is stored has faults: %q", faults)
	}
	if _, faults := k.UpdatedFrom(t, "", old, other); len(faults) != 1 || faults[0] != "spec.selectors[0].cel.expression Invalid" {
		t.Errorf("another expression has the faults %q", faults)
	}
}
