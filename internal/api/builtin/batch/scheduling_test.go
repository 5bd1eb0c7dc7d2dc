package batch

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

func TestScheduling(t *testing.T) {
	gates, err := features.Parse([]string{"GenericWorkload=true,WorkloadWithJob=true"}, features.Now())
	if err != nil {
		t.Fatal(err)
	}
	k := rulestest.Of(t, Resources(Deps{Pods: podspec.Policy{Gates: gates}}), "jobs", `
metadata: {name: j, namespace: ns, uid: 11111111-2222-3333-4444-555555555555}
spec:
  parallelism: 3
  scheduling: {schedulingPolicy: {gang: {minCount: 2}}, resourceClaims: [{name: c, resourceClaimName: claim}]}
  manualSelector: true
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}
`)
	of := func(s string) string { return `{spec: {scheduling: {` + s + `}}}` }
	k.Create(t, []rulestest.Case{
		{Name: "as it is"},
		{Name: "gang of none", Edit: of(`schedulingPolicy: {gang: {minCount: 0}}`), Want: []string{"spec.scheduling.schedulingPolicy.gang.minCount Invalid"}},
		{Name: "larger gang", Edit: of(`schedulingPolicy: {gang: {minCount: 4}}`), Want: []string{"spec.scheduling.schedulingPolicy.gang.minCount Invalid"}},
		{Name: "all of a gang", Edit: of(`disruptionMode: {all: {}}`)},
		{Name: "all by default", Edit: of(`schedulingPolicy: null, disruptionMode: {all: {}}`), Want: []string{"spec.scheduling.disruptionMode Invalid"}},
		{Name: "claim twice", Edit: of(`resourceClaims: [{name: c, resourceClaimName: claim}, {name: c, resourceClaimName: claim}]`),
			Want: []string{"spec.scheduling.resourceClaims[1] Duplicate"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "size", Edit: of(`schedulingPolicy: {gang: {minCount: 3}}`)},
		{Name: "policy", Edit: of(`schedulingPolicy: {gang: null, basic: {}}`), Want: []string{"spec.scheduling.schedulingPolicy Invalid"}},
		{Name: "no policy", Edit: of(`schedulingPolicy: null`), Want: []string{"spec.scheduling.schedulingPolicy Invalid"}},
		{Name: "nothing", Edit: `{spec: {scheduling: null}}`, Want: []string{"spec.scheduling Invalid"}},
		{Name: "mode", Edit: of(`disruptionMode: {single: {}}`), Want: []string{"spec.scheduling.disruptionMode Invalid"}},
		{Name: "claims", Edit: of(`resourceClaims: null`), Want: []string{"spec.scheduling.resourceClaims Invalid"}},
	})
}
