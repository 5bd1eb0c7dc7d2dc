package flowcontrol

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

// The mandatory objects pass validation.
func TestMandatory(t *testing.T) {
	for _, s := range MandatoryFlowSchemas() {
		if faults := validateFlowSchema(rulestest.Context(), s); len(faults) > 0 {
			t.Errorf("flow schema %s: %v", s.Name, faults)
		}
	}
	for _, p := range MandatoryPriorityLevels() {
		if faults := validatePriorityLevelConfiguration(rulestest.Context(), p); len(faults) > 0 {
			t.Errorf("priority level %s: %v", p.Name, faults)
		}
	}
}

func TestFlowSchemas(t *testing.T) {
	k := rulestest.Of(t, Resources(), "flowschemas", `
metadata: {name: s}
spec: {priorityLevelConfiguration: {name: global-default}}
`)
	k.Create(t, []rulestest.Case{
		{Name: "no level", Edit: `{spec: {priorityLevelConfiguration: {name: ""}}}`,
			Want: []string{"spec.priorityLevelConfiguration.name Required"}},
		{Name: "precedence", Edit: `{spec: {matchingPrecedence: 10001}}`, Want: []string{"spec.matchingPrecedence Invalid"}},
		{Name: "taken", Edit: `{spec: {matchingPrecedence: 1}}`, Want: []string{"spec.matchingPrecedence Invalid"}},
		{Name: "no subjects", Edit: `{spec: {rules: [{nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["*"]}]}]}}`,
			Want: []string{"spec.rules[0].subjects Required"}},
		{Name: "other exempt", Edit: `{metadata: {name: exempt}}`, Want: []string{"spec Invalid"}},
	})
}

func TestPriorityLevels(t *testing.T) {
	k := rulestest.Of(t, Resources(), "prioritylevelconfigurations", `
metadata: {name: l}
spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {}}}}
`)
	k.Create(t, []rulestest.Case{
		{Name: "exempt", Edit: `{spec: {type: Exempt}}`, Want: []string{"spec.type Invalid", "spec.limited Forbidden"}},
		{Name: "hands", Edit: `{spec: {limited: {limitResponse: {queuing: {queues: 4, handSize: 8}}}}}`,
			Want: []string{"spec.limited.limitResponse.queuing.handSize Invalid"}},
		{Name: "lending", Edit: `{spec: {limited: {lendablePercent: 101}}}`,
			Want: []string{"spec.limited.lendablePercent Invalid"}},
	})
}
