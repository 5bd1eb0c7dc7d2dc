package scheduling

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

func TestPriorityClasses(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "priorityclasses", `{metadata: {name: high}, value: 1000}`)
	k.Create(t, []rulestest.Case{
		{Name: "too high", Edit: `{value: 1000000001}`, Want: []string{"value Forbidden"}},
		{Name: "system name", Edit: `{metadata: {name: system-foo}}`, Want: []string{"metadata.name Forbidden"}},
		{Name: "preemption", Edit: `{preemptionPolicy: Foo}`, Want: []string{"preemptionPolicy NotSupported"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "value", Edit: `{value: 5}`, Want: []string{"value Forbidden"}},
		{Name: "description", Edit: `{description: x}`},
	})
}

func TestSystemClasses(t *testing.T) {
	r := Resources(Deps{})[0]
	for _, c := range System() {
		if errs := r.Rules.Validate(rulestest.Context(), c); len(errs) > 0 {
			t.Errorf("%s: %v", c.Name, errs)
		}
		if err := r.Rules.CheckDelete(rulestest.Context(), c); !apierrors.IsForbidden(err) {
			t.Errorf("%s can be deleted: %v", c.Name, err)
		}
	}
}
