package resource

import (
	"context"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

func TestTaintRules(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{Now: time.Now}), "devicetaintrules", `
metadata: {name: r}
spec: {deviceSelector: {driver: d.example.com}, taint: {key: k, effect: NoSchedule}}
`)
	k.Create(t, []rulestest.Case{
		{Name: "effect", Edit: `{spec: {taint: {effect: Foo}}}`, Want: []string{"spec.taint.effect NotSupported"}},
		{Name: "no effect", Edit: `{spec: {taint: {effect: ""}}}`, Want: []string{"spec.taint.effect Required"}},
		{Name: "no key", Edit: `{spec: {taint: {key: ""}}}`, Want: []string{"spec.taint.key Invalid"}},
		{Name: "selector", Edit: `{spec: {deviceSelector: {pool: "", device: A}}}`,
			Want: []string{"spec.deviceSelector.pool Required", "spec.deviceSelector.device Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{{Name: "effect", Edit: `{spec: {taint: {effect: NoExecute}}}`}})
	k.Update(t, "status", []rulestest.Case{
		{Name: "condition", Edit: `{status: {conditions: [{type: a, status: Foo, reason: r, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`,
			Want: []string{"status.conditions[0].status NotSupported"}},
	})
}

// A taint counts from when it got its effect, unless the client says otherwise.
func TestRenewedTaint(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	before, other := metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now.Add(-time.Minute))
	rule := func(effect resourcev1.DeviceTaintEffect, added metav1.Time) *resourcev1.DeviceTaintRule {
		return &resourcev1.DeviceTaintRule{Spec: resourcev1.DeviceTaintRuleSpec{Taint: resourcev1.DeviceTaint{Effect: effect, TimeAdded: &added}}}
	}
	old := rule(resourcev1.DeviceTaintEffectNone, before)
	for name, c := range map[string]struct {
		effect resourcev1.DeviceTaintEffect
		sent   metav1.Time
		want   time.Time
	}{
		"the same effect":   {resourcev1.DeviceTaintEffectNone, before, before.Time},
		"another effect":    {resourcev1.DeviceTaintEffectNoExecute, before, now.Truncate(time.Second)},
		"another with time": {resourcev1.DeviceTaintEffectNoExecute, other, other.Time},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule(c.effect, c.sent)
			deviceTaintRules(Deps{Now: func() time.Time { return now }}).Rules.PrepareUpdate(context.Background(), r, old)
			if got := r.Spec.Taint.TimeAdded.Time; !got.Equal(c.want) {
				t.Errorf("added at %v, not %v", got, c.want)
			}
		})
	}
}
