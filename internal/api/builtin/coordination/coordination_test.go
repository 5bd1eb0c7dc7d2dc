package coordination

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

func TestLeases(t *testing.T) {
	k := rulestest.Of(t, Resources(), "leases", `{metadata: {name: l}, spec: {holderIdentity: a, leaseDurationSeconds: 5}}`)
	k.Create(t, []rulestest.Case{
		{Name: "duration", Edit: `{spec: {leaseDurationSeconds: 0}}`, Want: []string{"spec.leaseDurationSeconds Invalid"}},
		{Name: "transitions", Edit: `{spec: {leaseTransitions: -1}}`, Want: []string{"spec.leaseTransitions Invalid"}},
		{Name: "nobody", Edit: `{spec: {holderIdentity: ""}}`},
	})
}
