package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

const workload = `
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
`

func TestDeployments(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "deployments", workload)
	k.Create(t, []rulestest.Case{
		{Name: "as it is"},
		{Name: "negative", Edit: `{spec: {replicas: -1, minReadySeconds: -1, revisionHistoryLimit: -1}}`,
			Want: []string{"spec.replicas Invalid", "spec.minReadySeconds Invalid", "spec.revisionHistoryLimit Invalid"}},
		{Name: "no selector", Edit: `{spec: {selector: null}}`,
			Want: []string{"spec.selector Required", "spec.template.metadata.labels Invalid"}},
		{Name: "other labels", Edit: `{spec: {template: {metadata: {labels: {app: db}}}}}`,
			Want: []string{"spec.template.metadata.labels Invalid"}},
		{Name: "strategy", Edit: `{spec: {strategy: {type: Foo}}}`,
			Want: []string{"spec.strategy NotSupported"}},
		{Name: "recreate with rolling update", Edit: `{spec: {strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}}}`,
			Want: []string{"spec.strategy.rollingUpdate Forbidden"}},
		{Name: "standstill", Edit: `{spec: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: "0%"}}}}`,
			Want: []string{"spec.strategy.rollingUpdate.maxUnavailable Invalid"}},
		{Name: "restart policy", Edit: `{spec: {template: {spec: {restartPolicy: Never}}}}`,
			Want: []string{"spec.template.spec.restartPolicy NotSupported"}},
		{Name: "late", Edit: `{spec: {minReadySeconds: 600}}`,
			Want: []string{"spec.progressDeadlineSeconds Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "scale", Edit: `{spec: {replicas: 5}}`},
		{Name: "selector", Edit: `{spec: {selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}}}}`,
			Want: []string{"spec.selector Invalid"}},
	})
	k.Update(t, "status", []rulestest.Case{
		{Name: "counts", Edit: `{status: {replicas: 1, readyReplicas: 2, availableReplicas: 3}}`,
			Want: []string{"status.availableReplicas Invalid", "status.readyReplicas Invalid"}},
		{Name: "spec is kept", Edit: `{spec: {replicas: -1}}`},
	})
}

func TestGeneration(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "deployments", workload)
	for _, test := range []struct {
		name, subresource, edit string
		want                    int64
	}{
		{"nothing", "", "", 1},
		{"labels", "", `{metadata: {labels: {a: b}}}`, 1},
		{"annotations count", "", `{metadata: {annotations: {a: b}}}`, 2},
		{"spec", "", `{spec: {replicas: 5}}`, 2},
		{"status", "status", `{spec: {replicas: 5}, status: {replicas: 1}}`, 1},
	} {
		obj, _ := k.Updated(t, test.subresource, test.edit)
		if got := obj.GetGeneration(); got != test.want {
			t.Errorf("%s: generation %d, want %d", test.name, got, test.want)
		}
	}
}

func TestStatefulSets(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "statefulsets", workload)
	k.Create(t, []rulestest.Case{
		{Name: "partition", Edit: `{spec: {updateStrategy: {rollingUpdate: {partition: -1}}}}`,
			Want: []string{"spec.updateStrategy.rollingUpdate.partition Invalid"}},
		{Name: "ordinals", Edit: `{spec: {ordinals: {start: -1}}}`, Want: []string{"spec.ordinals.start Invalid"}},
		{Name: "policy", Edit: `{spec: {podManagementPolicy: Foo}}`, Want: []string{"spec.podManagementPolicy Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "scale", Edit: `{spec: {replicas: 2}}`},
		{Name: "service", Edit: `{spec: {serviceName: other}}`, Want: []string{"spec.serviceName Invalid"}},
	})
}

func TestDaemonSetTemplateGeneration(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "daemonsets", workload)
	for _, test := range []struct {
		name, edit string
		want       string
	}{
		{"same", "", "1"},
		{"template", `{spec: {template: {metadata: {labels: {b: c}}}}}`, "2"},
		{"rest of the spec", `{spec: {minReadySeconds: 3}}`, "1"},
	} {
		obj, faults := k.Updated(t, "", test.edit)
		if len(faults) > 0 {
			t.Errorf("%s: %v", test.name, faults)
		}
		if got := obj.GetAnnotations()[appsv1.DeprecatedTemplateGeneration]; got != test.want {
			t.Errorf("%s: template generation %q, want %q", test.name, got, test.want)
		}
	}
}
