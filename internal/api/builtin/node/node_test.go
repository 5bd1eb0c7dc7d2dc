package node

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

func TestRuntimeClasses(t *testing.T) {
	k := rulestest.Of(t, Resources(), "runtimeclasses", `{metadata: {name: r}, handler: runc}`)
	k.Create(t, []rulestest.Case{
		{Name: "handler", Edit: `{handler: A_B}`, Want: []string{"handler Invalid"}},
		{Name: "overhead", Edit: `{overhead: {podFixed: {cpu: -1}}}`, Want: []string{"overhead.limits[cpu] Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{{Name: "handler", Edit: `{handler: other}`, Want: []string{"handler Invalid"}}})
}
