package batch

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

const baseJob = `
metadata: {name: once}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
`

func TestJobs(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "jobs", baseJob)
	k.Create(t, []rulestest.Case{
		{Name: "always", Edit: `{spec: {template: {spec: {restartPolicy: Always}}}}`,
			Want: []string{"spec.template.spec.restartPolicy Required"}},
		{Name: "selector of its own", Edit: `{spec: {selector: {matchLabels: {a: b}}}}`,
			Want: []string{"spec.selector Invalid", "spec.template.metadata.labels Invalid"}},
		{Name: "indexed", Edit: `{spec: {completionMode: Indexed, parallelism: 2}}`, Want: []string{"spec.completions Required"}},
		{Name: "indexed, once", Edit: `{spec: {completionMode: Indexed}}`},
		{Name: "success policy", Edit: `{spec: {successPolicy: {rules: [{succeededCount: 1}]}}}`,
			Want: []string{"spec.successPolicy Invalid"}},
		{Name: "indexes", Edit: `{spec: {completionMode: Indexed, completions: 3, successPolicy: {rules: [{succeededIndexes: "0-5"}]}}}`,
			Want: []string{"spec.successPolicy.rules[0].succeededIndexes Invalid"}},
		{Name: "failure policy", Edit: `{spec: {podFailurePolicy: {rules: [{action: Foo, onExitCodes: {operator: In, values: [0, 2, 1]}}]}}}`,
			Want: []string{"spec.podFailurePolicy.rules[0].action NotSupported",
				"spec.podFailurePolicy.rules[0].onExitCodes.values Invalid",
				"spec.podFailurePolicy.rules[0].onExitCodes.values[0] Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "parallelism", Edit: `{spec: {completions: 1, parallelism: 3, selector: {matchLabels: {batch.kubernetes.io/controller-uid: 5eb0f0c1-0000-4000-8000-000000000001}},
  template: {metadata: {labels: {batch.kubernetes.io/controller-uid: 5eb0f0c1-0000-4000-8000-000000000001, controller-uid: 5eb0f0c1-0000-4000-8000-000000000001, batch.kubernetes.io/job-name: once, job-name: once}}}}}`},
		{Name: "no selector", Edit: `{}`, Want: []string{"spec.selector Invalid", "spec.selector Required",
			"spec.template Invalid", "spec.template.metadata.labels Invalid"}},
	})
}

func TestOwnPods(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "jobs", baseJob)
	obj, _ := k.Created(t, "")
	j := obj.(*batchv1.Job)
	uid := string(j.UID)
	if got := j.Spec.Selector.MatchLabels["batch.kubernetes.io/controller-uid"]; got != uid {
		t.Errorf("selector: %q", got)
	}
	for label, want := range map[string]string{
		"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid,
		"batch.kubernetes.io/job-name": "once", "job-name": "once",
	} {
		if got := j.Spec.Template.Labels[label]; got != want {
			t.Errorf("label %s: %q, want %q", label, got, want)
		}
	}
}

func TestCronJobs(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "cronjobs", `
metadata: {name: often}
spec:
  schedule: "*/5 * * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
`)
	k.Create(t, []rulestest.Case{
		{Name: "no schedule", Edit: `{spec: {schedule: ""}}`, Want: []string{"spec.schedule Required"}},
		{Name: "bad schedule", Edit: `{spec: {schedule: "* * *"}}`, Want: []string{"spec.schedule Invalid"}},
		{Name: "zone in schedule", Edit: `{spec: {schedule: "TZ=UTC * * * * *"}}`, Want: []string{"spec.schedule Invalid"}},
		{Name: "zone", Edit: `{spec: {timeZone: Nowhere/Land}}`, Want: []string{"spec.timeZone Invalid"}},
		{Name: "known zone", Edit: `{spec: {timeZone: Europe/Berlin}}`},
		{Name: "policy", Edit: `{spec: {concurrencyPolicy: Foo}}`, Want: []string{"spec.concurrencyPolicy NotSupported"}},
		{Name: "long name", Edit: `{metadata: {name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}}`,
			Want: []string{"metadata.name Invalid"}},
	})
}

func TestIndexes(t *testing.T) {
	tests := []struct {
		text  string
		count int32
		ok    bool
	}{
		{"", 0, true},
		{"1", 1, true},
		{"0,2-4,7", 5, true},
		{"3,1", 0, false},
		{"2-2", 0, false},
		{"4-2", 0, false},
		{"10", 0, false},
		{"a", 0, false},
		{"1,", 0, false},
	}
	for _, test := range tests {
		x, err := parseIndexes(test.text, 10)
		if (err == nil) != test.ok || x.count() != test.count {
			t.Errorf("%q: %d, %v", test.text, x.count(), err)
		}
	}
	if !overlap("1-3", "3,5", 10) || overlap("1-3", "4,5", 10) {
		t.Error("overlap")
	}
}
