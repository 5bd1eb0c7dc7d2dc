package batch

import (
	"context"
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func cronJobs(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "cronjobs", Kind: "CronJob",
		ShortNames: []string{"cj"},
		Categories: []string{"all"},
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[batchv1.CronJob, batchv1.CronJobList](v1, defaultCronJob)},
		Rules: engine.Typed[*batchv1.CronJob]{
			StatusApart: true,
			CountsSpec:  true,
			PrepareCreate: func(_ context.Context, c *batchv1.CronJob) {
				d.Pods.DropDisabledTemplate(&c.Spec.JobTemplate.Spec.Template, nil)
			},
			PrepareUpdate: func(_ context.Context, c, old *batchv1.CronJob) {
				d.Pods.DropDisabledTemplate(&c.Spec.JobTemplate.Spec.Template, &old.Spec.JobTemplate.Spec.Template)
			},
			Validate:       d.validateCronJob,
			ValidateUpdate: d.validateCronJobUpdate,
			Warn:           warnCronJob,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*batchv1.CronJob]{})}, // a status has no rules
		Table:        cronJobTable(),
	}
}

func defaultCronJob(c *batchv1.CronJob) {
	rules.Default(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	rules.DefaultPtr(&c.Spec.Suspend, false)
	rules.DefaultPtr(&c.Spec.SuccessfulJobsHistoryLimit, 3)
	rules.DefaultPtr(&c.Spec.FailedJobsHistoryLimit, 1)
	defaultJobTemplate(&c.Spec.JobTemplate.Spec)
}

func warnCronJob(_ context.Context, c, old *batchv1.CronJob) []string {
	path := specPath.Child("jobTemplate", "spec")
	if old == nil {
		return append(podspec.WarnName(c.Name), warnJobSpec(path, &c.Spec.JobTemplate.Spec, nil)...)
	}
	var out []string
	if c.Generation != old.Generation {
		out = warnJobSpec(path, &c.Spec.JobTemplate.Spec, &old.Spec.JobTemplate.Spec)
	}
	if strings.Contains(c.Spec.Schedule, "TZ") {
		out = append(out, "spec.schedule: TZ and CRON_TZ are not supported, use spec.timeZone")
	}
	return out
}
