package resource

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

func TestPoolStatusRequests(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "resourcepoolstatusrequests", `{metadata: {name: r}, spec: {driver: d.example.com}}`)
	k.Create(t, []rulestest.Case{
		{Name: "no driver", Edit: `{spec: {driver: ""}}`, Want: []string{"spec.driver Required"}},
		{Name: "driver", Edit: `{spec: {driver: D.example.com}}`},
		{Name: "pool", Edit: `{spec: {poolName: a//b}}`, Want: []string{"spec.poolName Invalid"}},
		{Name: "limit", Edit: `{spec: {limit: 1001}}`, Want: []string{"spec.limit Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{{Name: "another driver", Edit: `{spec: {driver: e.example.com}}`, Want: []string{"spec Invalid"}}})
	k.Update(t, "status", []rulestest.Case{
		{Name: "answer", Edit: `{status: {poolCount: 1, pools: [{driver: d.example.com, poolName: p, generation: 1, totalDevices: 2}]}}`},
		{Name: "no count", Edit: `{status: {pools: []}}`, Want: []string{"status.poolCount Required"}},
		{Name: "pool", Edit: `{status: {poolCount: 1, pools: [{driver: d.example.com, generation: 0, totalDevices: -1, resourceSliceCount: 0}]}}`,
			Want: []string{"status.pools[0].generation Required", "status.pools[0].poolName Required", "status.pools[0].resourceSliceCount Invalid", "status.pools[0].totalDevices Invalid"}},
		{Name: "summaries", Edit: `{status: {poolCount: 1, pools: [{driver: d.example.com, poolName: p, generation: 1, partitionSummary: [{attribute: a, type: t, total: 1, allocatable: 1},
  {attribute: a, type: t, total: 1}], shareableSummary: {fullyAvailableDevices: 1, capacity: [{name: c, total: 1, consumed: 1}]}}]}}`,
			Want: []string{"status.pools[0].partitionSummary[1] Duplicate", "status.pools[0].partitionSummary[1].allocatable Required",
				"status.pools[0].shareableSummary.capacity[0].available Required", "status.pools[0].shareableSummary.partiallyAvailableDevices Required"}},
	})
}

// A request is answered once.
func TestAnswerIsFinal(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "resourcepoolstatusrequests", `{metadata: {name: r}, spec: {driver: d.example.com}}`)
	old := k.Decoded(t, `{status: {poolCount: 1}}`)
	for edit, want := range map[string]int{`{status: {poolCount: 1}}`: 0, `{status: {poolCount: 2}}`: 1, `{}`: 1} {
		if _, faults := k.UpdatedFrom(t, "status", old, edit); len(faults) != want {
			t.Errorf("%s: %v", edit, faults)
		}
	}
}
