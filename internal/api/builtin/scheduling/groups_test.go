package scheduling

import (
	"testing"

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
	return Deps{Gates: gates}
}

func TestServed(t *testing.T) {
	for gates, want := range map[string]int{"": 1, "GenericWorkload=true": 3,
		"GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true": 4} {
		set, err := features.Parse([]string{gates}, features.Now())
		if err != nil {
			t.Fatal(err)
		}
		if got := len(Resources(Deps{Gates: set})); got != want {
			t.Errorf("%q: %d kinds, not %d", gates, got, want)
		}
	}
}

func TestWorkloads(t *testing.T) {
	k := rulestest.Of(t, Resources(everything(t)), "workloads", `
metadata: {name: w, namespace: ns}
spec: {podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 3}}}]}
`)
	const basic = `schedulingPolicy: {basic: {}}`
	tree := func(s string) string {
		return `{spec: {podGroupTemplates: null, compositePodGroupTemplates: [` + s + `]}}`
	}
	k.Create(t, []rulestest.Case{
		{Name: "as it is"},
		{Name: "declared", Edit: `{spec: {podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 0}}}]}}`,
			Want: []string{"spec.podGroupTemplates[0].schedulingPolicy.gang.minCount Required"}},
		{Name: "tree", Edit: tree(`{name: t, ` + basic + `, podGroupTemplates: [{name: b, ` + basic + `}]}`)},
		{Name: "no child", Edit: tree(`{name: t, ` + basic + `}`), Want: []string{"spec.compositePodGroupTemplates[0] Invalid"}},
		{Name: "groups and trees", Edit: `{spec: {compositePodGroupTemplates: [` + nested("t") + `]}}`, Want: []string{"spec Invalid"}},
		{Name: "name of another list", Edit: tree(`{name: t, ` + basic + `, podGroupTemplates: [{name: t, ` + basic + `}]}`),
			Want: []string{"spec.compositePodGroupTemplates[0].podGroupTemplates[0].name Duplicate"}},
		{Name: "three levels", Edit: tree(nested("t", "u", "v"))},
		{Name: "four levels", Edit: tree(nested("t", "u", "v", "w")), Want: []string{"spec.compositePodGroupTemplates[0] Invalid"}},
		{Name: "priorities", Edit: `{spec: {podGroupTemplates: [{name: a, priority: 1, ` + basic + `}, {name: b, ` + basic + `}]}}`,
			Want: []string{"spec Invalid"}},
		{Name: "priority of a tree", Edit: tree(`{name: t, priorityClassName: p, ` + basic + `, podGroupTemplates: [{name: b, ` + basic + `}]}`),
			Want: []string{"spec Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "labels", Edit: `{metadata: {labels: {a: b}}}`},
		{Name: "count", Edit: `{spec: {podGroupTemplates: [{name: a, schedulingPolicy: {gang: {minCount: 4}}}]}}`},
		{Name: "priority", Edit: `{spec: {podGroupTemplates: [{name: a, priority: 1, schedulingPolicy: {gang: {minCount: 3}}}]}}`,
			Want: []string{"spec.podGroupTemplates[0].priority Invalid"}},
	})
}

// nested is a tree with a template of each name, and a group below the last one.
func nested(names ...string) string {
	s := `{name: ` + names[0] + `, schedulingPolicy: {basic: {}}, `
	if len(names) == 1 {
		return s + `podGroupTemplates: [{name: leaf, schedulingPolicy: {basic: {}}}]}`
	}
	return s + `compositePodGroupTemplates: [` + nested(names[1:]...) + `]}`
}

func TestPodGroups(t *testing.T) {
	k := rulestest.Of(t, Resources(everything(t)), "podgroups", `
metadata: {name: g, namespace: ns}
spec: {schedulingPolicy: {gang: {minCount: 2}}, resourceClaims: [{name: c, resourceClaimName: x}]}
`)
	obj, _ := k.Created(t, "")
	if g := obj.(*podGroup); g.Spec.DisruptionMode == nil || g.Spec.DisruptionMode.Single == nil || g.Spec.PreemptionPolicy == nil {
		t.Errorf("defaults are missing: %+v", g.Spec)
	}
	k.Create(t, []rulestest.Case{
		{Name: "both policies", Edit: `{spec: {schedulingPolicy: {basic: {}}}}`, Want: []string{"spec.schedulingPolicy Invalid"}},
		{Name: "parent without workload", Edit: `{spec: {parentCompositePodGroupName: p}}`, Want: []string{"spec.workloadRef Required"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "priority", Edit: `{spec: {priority: 7}}`, Want: []string{"spec.priority Invalid"}},
		{Name: "count", Edit: `{spec: {schedulingPolicy: {gang: {minCount: 3}}}}`},
	})
	k.Update(t, "status", []rulestest.Case{
		{Name: "claim", Edit: `{status: {resourceClaimStatuses: [{name: c, resourceClaimName: claim-y}]}}`},
		{Name: "no claim", Edit: `{status: {resourceClaimStatuses: [{name: d}]}}`, Want: []string{"status.resourceClaimStatuses[0].name Invalid"}},
		{Name: "condition", Edit: `{status: {conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`,
			Want: []string{"status.conditions[0].reason Required"}},
	})
}

func TestPodGroupsWithoutGates(t *testing.T) {
	gates, err := features.Parse([]string{"GenericWorkload=true"}, features.Now())
	if err != nil {
		t.Fatal(err)
	}
	k := rulestest.Of(t, Resources(Deps{Gates: gates}), "podgroups", `
metadata: {name: g, namespace: ns}
spec: {schedulingPolicy: {basic: {}}}
`)
	obj, faults := k.Created(t, "")
	if g := obj.(*podGroup); len(faults) > 0 || g.Spec.PreemptionPolicy != nil {
		t.Errorf("faults %q, preemption %v", faults, g.Spec.PreemptionPolicy)
	}
}

func TestCompositePodGroups(t *testing.T) {
	k := rulestest.Of(t, Resources(everything(t)), "compositepodgroups", `
metadata: {name: g, namespace: ns}
spec: {schedulingPolicy: {basic: {}}, workloadRef: {workloadName: w, templateName: t}}
`)
	k.Create(t, []rulestest.Case{
		{Name: "as it is"},
		{Name: "no policy", Edit: `{spec: {schedulingPolicy: null}}`, Want: []string{"spec.schedulingPolicy Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "workload", Edit: `{spec: {workloadRef: {workloadName: v}}}`, Want: []string{"spec.workloadRef Invalid"}},
	})
	k.Update(t, "status", []rulestest.Case{
		{Name: "condition", Edit: `{status: {conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`,
			Want: []string{"status.conditions[0].reason Required"}},
	})
}
