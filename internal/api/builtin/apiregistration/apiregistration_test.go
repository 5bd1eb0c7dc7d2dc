package apiregistration

import (
	"testing"
	"time"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

func TestAPIServices(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{Now: time.Now}), "apiservices", `
metadata: {name: v1.example.com}
spec: {group: example.com, version: v1, groupPriorityMinimum: 10, versionPriority: 10, service: {name: s, namespace: d}, insecureSkipTLSVerify: true}
`)
	k.Create(t, []rulestest.Case{
		{Name: "name", Edit: `{metadata: {name: v2.example.com}}`, Want: []string{"metadata.name Invalid"}},
		{Name: "priorities", Edit: `{spec: {groupPriorityMinimum: 20001, versionPriority: 0}}`,
			Want: []string{"spec.groupPriorityMinimum Invalid", "spec.versionPriority Invalid"}},
		{Name: "service", Edit: `{spec: {service: {name: "", namespace: ""}}}`,
			Want: []string{"spec.service.name Required", "spec.service.namespace Required"}},
		{Name: "trust nobody and all", Edit: `{spec: {caBundle: Zm9v}}`, Want: []string{"spec.insecureSkipTLSVerify Invalid"}},
	})
}
