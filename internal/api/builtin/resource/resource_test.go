package resource

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

const claim = `
metadata: {name: c}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
`

func TestClaims(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{Now: time.Now}), "resourceclaims", claim)
	k.Create(t, []rulestest.Case{
		{Name: "duplicate", Edit: `{spec: {devices: {requests: [{name: r, exactly: {deviceClassName: a}}, {name: r, exactly: {deviceClassName: a}}]}}}`,
			Want: []string{"spec.devices.requests[1] Duplicate"}},
		{Name: "neither", Edit: `{spec: {devices: {requests: [{name: r}]}}}`,
			Want: []string{"spec.devices.requests[0] Required"}},
		{Name: "expression", Edit: `{spec: {devices: {requests: [{name: r, exactly: {deviceClassName: a, selectors: [{cel: {expression: "device.foo == 1"}}]}}]}}}`,
			Want: []string{"spec.devices.requests[0].exactly.selectors[0].cel.expression Invalid"}},
		{Name: "good expression", Edit: `{spec: {devices: {requests: [{name: r, exactly: {deviceClassName: a, selectors: [{cel: {expression: "device.driver == 'a'"}}]}}]}}}`},
		{Name: "constraint", Edit: `{spec: {devices: {constraints: [{requests: [x], matchAttribute: a/b}]}}}`,
			Want: []string{"spec.devices.constraints[0].requests[0] Invalid"}},
		{Name: "administrator", Edit: `{spec: {devices: {requests: [{name: r, exactly: {deviceClassName: a, adminAccess: true}}]}}}`,
			Want: []string{"spec.devices.requests[0].adminAccess Forbidden"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "immutable", Edit: `{spec: {devices: {requests: [{name: s, exactly: {deviceClassName: gpu}}]}}}`, Want: []string{"spec Invalid"}},
		{Name: "labels", Edit: `{metadata: {labels: {a: b}}}`},
	})
	k.Update(t, "status", []rulestest.Case{
		{Name: "allocated", Edit: `{status: {allocation: {devices: {results: [{request: r, driver: d.example.com, pool: p, device: x}]}}}}`},
		{Name: "toleration", Edit: `{status: {allocation: {devices: {results: [{request: r, driver: d.example.com, pool: p, device: x, tolerations: [{effect: Foo}]}]}}}}`,
			Want: []string{"status.allocation.devices.results[0].tolerations[0].effect NotSupported"}},
		{Name: "unknown request", Edit: `{status: {allocation: {devices: {results: [{request: x, driver: d.example.com, pool: p, device: x}]}}}}`,
			Want: []string{"status.allocation.devices.results[0].request Invalid"}},
		{Name: "reserved unallocated", Edit: `{status: {reservedFor: [{resource: pods, name: p, uid: u}]}}`,
			Want: []string{"status.reservedFor Forbidden"}},
	})
}

// Administrative access to devices is allowed only in labelled namespaces.
func TestAdminAccess(t *testing.T) {
	d := Deps{Now: time.Now, NamespaceLabels: func(context.Context, string) (map[string]string, error) {
		return map[string]string{resourcev1.DRAAdminNamespaceLabelKey: "true"}, nil
	}}
	k := rulestest.Of(t, Resources(d), "resourceclaims", claim)
	k.Create(t, []rulestest.Case{
		{Name: "administrator", Edit: `{spec: {devices: {requests: [{name: r, exactly: {deviceClassName: a, adminAccess: true}}]}}}`},
	})
}

// TestMayWriteStatus has nobody allowed to bind claims and to report devices, which counts while the gate is on.
func TestMayWriteStatus(t *testing.T) {
	for flag, refused := range map[string]bool{"": true, features.DRAResourceClaimGranularStatusAuthorization + "=false": false} {
		gates, err := features.Parse([]string{flag}, features.Now())
		if err != nil {
			t.Fatal(err)
		}
		d := Deps{Now: time.Now, Gates: gates, MayBind: func(context.Context) error { return errors.New("no") },
			MayReport: func(context.Context, string, string) error { return errors.New("no") }}
		k := rulestest.Of(t, Resources(d), "resourceclaims", claim)
		_, faults := k.Updated(t, "status", `{status: {allocation: {devices: {results: [{request: r, driver: d.example.com, pool: p, device: x}]}},
			devices: [{driver: d.example.com, pool: p, device: x}]}}`)
		for _, fault := range []string{"status.allocation Forbidden", "status.devices Forbidden"} {
			if slices.Contains(faults, fault) != refused {
				t.Errorf("%q: faults %q", flag, faults)
			}
		}
	}
}

func TestSlices(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{Now: time.Now}), "resourceslices", `
metadata: {name: s}
spec: {driver: d.example.com, nodeName: node-1, pool: {name: p, generation: 1, resourceSliceCount: 1}, devices: [{name: a}]}
`)
	k.Create(t, []rulestest.Case{
		{Name: "nowhere", Edit: `{spec: {nodeName: null}}`, Want: []string{"spec Required"}},
		{Name: "twice", Edit: `{spec: {allNodes: true}}`, Want: []string{"spec Invalid"}},
		{Name: "duplicate", Edit: `{spec: {devices: [{name: a}, {name: a}]}}`, Want: []string{"spec.devices[1] Duplicate"}},
		{Name: "count", Edit: `{spec: {pool: {resourceSliceCount: 0}}}`, Want: []string{"spec.pool.resourceSliceCount Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{{Name: "driver", Edit: `{spec: {driver: e.example.com}}`, Want: []string{"spec.driver Invalid"}}})
}
