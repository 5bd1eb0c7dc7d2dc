package batch

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"
	_ "time/tzdata" // time zones of CronJobs, where the system has none: containers, Windows

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// maxCronJobName leaves room for the time at the end of the jobs' names.
const maxCronJobName = 63 - 11

func (deps Deps) validateCronJob(_ context.Context, c *batchv1.CronJob) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&c.ObjectMeta, true, rules.Subdomain))
	cronJobSpec(&c.Spec, nil, e, podspec.OptionsForTemplate(deps.Pods, nil))
	deps.scheduling(&c.Spec.JobTemplate.Spec, nil, jobTemplate(e))
	if len(c.Name) > maxCronJobName {
		e.Elsewhere(field.NewPath("metadata", "name")).Invalid(c.Name, fmt.Sprintf("must be no more than %d characters", maxCronJobName))
	}
	return e.List()
}

func (deps Deps) validateCronJobUpdate(_ context.Context, c, old *batchv1.CronJob) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	o := podspec.OptionsForTemplate(deps.Pods, &old.Spec.JobTemplate.Spec.Template)
	cronJobSpec(&c.Spec, &old.Spec, e, o)
	deps.scheduling(&c.Spec.JobTemplate.Spec, &old.Spec.JobTemplate.Spec, jobTemplate(e))
	return e.List()
}

func jobTemplate(e rules.Errors) rules.Errors { return e.Field("jobTemplate").Field("spec") }

func cronJobSpec(s, old *batchv1.CronJobSpec, e rules.Errors, o podspec.Options) {
	if e.Present("schedule", s.Schedule) {
		at := e.Field("schedule")
		if err := checkSchedule(s.Schedule); err != nil {
			at.Invalid(s.Schedule, err.Error())
		}
		// Time zones in the schedule were never intended; stored ones stay valid.
		if strings.Contains(s.Schedule, "TZ") {
			if old == nil || !strings.Contains(old.Schedule, "TZ") {
				at.Invalid(s.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
			} else if s.TimeZone != nil {
				at.Invalid(s.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
			}
		}
	}
	rules.NonnegativePtr(e, "startingDeadlineSeconds", s.StartingDeadlineSeconds)
	if s.TimeZone != nil && (old == nil || !reflect.DeepEqual(s.TimeZone, old.TimeZone)) {
		timeZone(*s.TimeZone, e.Field("timeZone"))
	}
	rules.RequiredOneOf(e, "concurrencyPolicy", s.ConcurrencyPolicy, []batchv1.ConcurrencyPolicy{
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent,
	})
	template := jobTemplate(e)
	jobSpec(&s.JobTemplate.Spec, template, o)
	if selector := s.JobTemplate.Spec.Selector; selector != nil {
		template.Field("selector").Invalid(selector, "`selector` will be auto-generated")
	}
	if deref(s.JobTemplate.Spec.ManualSelector) {
		template.AddError(field.NotSupported(template.Path().Child("manualSelector"), true, []string{"nil", "false"}))
	}
	rules.NonnegativePtr(e, "successfulJobsHistoryLimit", s.SuccessfulJobsHistoryLimit)
	rules.NonnegativePtr(e, "failedJobsHistoryLimit", s.FailedJobsHistoryLimit)
}

// checkSchedule parses a schedule. The parser panics on some malformed schedules.
func checkSchedule(schedule string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed schedule: %v", r)
		}
	}()
	_, err = cron.ParseStandard(schedule)
	return err
}

func timeZone(name string, e rules.Errors) {
	if name == "" {
		e.Invalid(name, "timeZone must be nil or non-empty string")
		return
	}
	// Names become paths below the time zone data.
	for _, part := range strings.Split(name, "/") {
		if part == "." || part == ".." || !isZonePart(part) {
			e.Invalid(name, "unknown time zone "+name)
			return
		}
	}
	if strings.EqualFold(name, "Local") {
		e.Invalid(name, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	}
	if _, err := time.LoadLocation(name); err != nil {
		e.Invalid(name, "unknown time zone "+name)
	}
}

func isZonePart(s string) bool {
	if len(s) == 0 || len(s) > 14 || s[0] == '-' {
		return false
	}
	for _, c := range s {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.ContainsRune(".-_+", c):
		default:
			return false
		}
	}
	return true
}
