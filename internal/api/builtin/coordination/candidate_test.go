package coordination

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

func TestLeaseCandidates(t *testing.T) {
	k := rulestest.Of(t, Resources(), "leasecandidates", `
metadata: {name: host_4711}
spec: {leaseName: l, binaryVersion: 1.37.0, emulationVersion: 1.36.0, strategy: OldestEmulationVersion}
`)
	k.Create(t, []rulestest.Case{
		{Name: "name", Edit: `{metadata: {name: a/b}}`, Want: []string{"metadata.name Invalid"}},
		{Name: "no lease", Edit: `{spec: {leaseName: ""}}`, Want: []string{"spec.leaseName Required"}},
		{Name: "no version", Edit: `{spec: {binaryVersion: ""}}`, Want: []string{"spec.binaryVersion Required"}},
		{Name: "no semantic version", Edit: `{spec: {emulationVersion: v1.36}}`,
			Want: []string{"spec.emulationVersion Invalid", "spec.emulationVersion Required"}},
		{Name: "emulates a newer one", Edit: `{spec: {emulationVersion: 1.38.0}}`, Want: []string{"spec.binaryVersion Invalid"}},
		{Name: "no emulation", Edit: `{spec: {emulationVersion: ""}}`, Want: []string{"spec.emulationVersion Required"}},
		{Name: "no strategy", Edit: `{spec: {strategy: ""}}`, Want: []string{"spec.strategy Required"}},
		{Name: "unknown strategy", Edit: `{spec: {strategy: Youngest}}`, Want: []string{"spec.strategy.strategy NotSupported"}},
		{Name: "own strategy", Edit: `{spec: {strategy: example.com/youngest, emulationVersion: ""}}`},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "another lease", Edit: `{spec: {leaseName: m}}`, Want: []string{"spec.leaseName Invalid"}},
		{Name: "renewed", Edit: `{spec: {renewTime: "2026-01-01T00:00:00.000000Z"}}`},
	})
}
