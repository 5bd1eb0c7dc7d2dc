package storagemigration

import (
	"testing"

	migrationv1 "k8s.io/api/storagemigration/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells/celltest"
	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

const migration = `
metadata: {name: m}
spec: {resource: {group: apps, resource: deployments}}
`

func TestMigrations(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "storageversionmigrations", migration)
	k.Create(t, []rulestest.Case{
		{Name: "no resource", Edit: `{spec: {resource: {resource: ""}}}`, Want: []string{"spec.resource.resource Required"}},
		{Name: "resource", Edit: `{spec: {resource: {resource: 1a}}}`, Want: []string{"spec.resource.resource Invalid"}},
		{Name: "group", Edit: `{spec: {resource: {group: A_}}}`, Want: []string{"spec.resource.group Invalid"}},
		{Name: "core", Edit: `{spec: {resource: {group: ""}}}`},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "spec", Edit: `{spec: {resource: {resource: pods}}}`, Want: []string{"spec Invalid"}},
		{Name: "labels", Edit: `{metadata: {labels: {a: b}}}`},
	})
	k.Update(t, "status", []rulestest.Case{
		{Name: "revision", Edit: `{status: {resourceVersion: "12"}}`},
		{Name: "no revision", Edit: `{status: {resourceVersion: "0x"}}`, Want: []string{"status.resourceVersion Invalid"}},
		{Name: "both", Edit: `{status: {conditions: [` + condition("Succeeded") + `, ` + condition("Failed") + `]}}`,
			Want: []string{"status.conditions Invalid"}},
	})
}

func condition(typ string) string {
	return `{type: ` + typ + `, status: "True", reason: r, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`
}

// What a migration has reached does not change any more.
func TestFinal(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "storageversionmigrations", migration)
	for name, c := range map[string]struct{ edit, want string }{
		"revision": {`{status: {resourceVersion: "13", conditions: [` + condition("Succeeded") + `]}}`, "status.resourceVersion Invalid"},
		"success":  {`{status: {resourceVersion: "12"}}`, "status.conditions Invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			old := k.Decoded(t, `{status: {resourceVersion: "12", conditions: [`+condition("Succeeded")+`]}}`)
			if _, faults := k.UpdatedFrom(t, "status", old, c.edit); len(faults) != 1 || faults[0] != c.want {
				t.Errorf("faults %q, not %q", faults, c.want)
			}
		})
	}
}

func TestTables(t *testing.T) {
	celltest.Run(t, map[string]celltest.Kind{"StorageVersionMigration": celltest.For[migrationv1.StorageVersionMigration](table())})
}
