package policy

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/builtin/rulestest"
)

func TestDisruptionBudgets(t *testing.T) {
	k := rulestest.Of(t, Resources(), "poddisruptionbudgets", `
metadata: {name: b}
spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}
`)
	k.Create(t, []rulestest.Case{
		{Name: "both", Edit: `{spec: {maxUnavailable: 1}}`, Want: []string{"spec Invalid"}},
		{Name: "percent", Edit: `{spec: {minAvailable: "101%"}}`, Want: []string{"spec.minAvailable Invalid"}},
		{Name: "negative", Edit: `{spec: {minAvailable: -1}}`, Want: []string{"spec.minAvailable Invalid"}},
		{Name: "eviction", Edit: `{spec: {unhealthyPodEvictionPolicy: Foo}}`, Want: []string{"spec.unhealthyPodEvictionPolicy NotSupported"}},
	})
	k.Update(t, "", []rulestest.Case{{Name: "spec", Edit: `{spec: {minAvailable: "50%"}}`}})
	k.Update(t, "status", []rulestest.Case{
		{Name: "negative", Edit: `{status: {currentHealthy: -1}}`, Want: []string{"status.currentHealthy Invalid"}},
	})
}
