package storage

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

func TestClasses(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "storageclasses", `{metadata: {name: c}, provisioner: example.com/p}`)
	k.Create(t, []rulestest.Case{
		{Name: "no provisioner", Edit: `{provisioner: ""}`, Want: []string{"provisioner Required"}},
		{Name: "binding", Edit: `{volumeBindingMode: Foo}`, Want: []string{"volumeBindingMode NotSupported"}},
		{Name: "reclaim", Edit: `{reclaimPolicy: Foo}`, Want: []string{"reclaimPolicy NotSupported"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "parameters", Edit: `{parameters: {a: b}}`, Want: []string{"parameters Invalid"}},
		{Name: "expansion", Edit: `{allowVolumeExpansion: true}`},
	})
}

func TestAttachments(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "volumeattachments", `
metadata: {name: a}
spec: {attacher: example.com, nodeName: node-1, source: {persistentVolumeName: v}}
`)
	k.Create(t, []rulestest.Case{
		{Name: "no source", Edit: `{spec: {source: {persistentVolumeName: null}}}`, Want: []string{"spec.source Required"}},
		{Name: "no node", Edit: `{spec: {nodeName: ""}}`, Want: []string{"spec.nodeName Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{{Name: "node", Edit: `{spec: {nodeName: node-2}}`, Want: []string{"spec Invalid"}}})
}

func TestDrivers(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "csidrivers", `{metadata: {name: d.example.com}}`)
	k.Create(t, []rulestest.Case{
		{Name: "mode", Edit: `{spec: {volumeLifecycleModes: [Foo]}}`, Want: []string{"spec.volumeLifecycleModes NotSupported"}},
		{Name: "audiences", Edit: `{spec: {tokenRequests: [{audience: a}, {audience: a}]}}`,
			Want: []string{"spec.tokenRequests[1].audience Duplicate"}},
		{Name: "expiry", Edit: `{spec: {tokenRequests: [{audience: a, expirationSeconds: 1}]}}`,
			Want: []string{"spec.tokenRequests[0].expirationSeconds Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "attaching", Edit: `{spec: {attachRequired: false}}`, Want: []string{"spec.attachedRequired Invalid"}},
		{Name: "capacity", Edit: `{spec: {storageCapacity: true}}`},
	})
}
