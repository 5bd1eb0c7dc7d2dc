package batch

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func jobTable() *engine.Table {
	return engine.TableOf(jobRow, cells.Workload(batchv1.JobSpec{}.SwaggerDoc()["selector"],
		cells.Name(),
		cells.String("Status", "How far the job has come."),
		cells.String("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]),
		cells.String("Duration", "How long the job has run, or ran."),
		cells.Age(),
	)...)
}

func jobRow(j *batchv1.Job) []any {
	names, images := cells.Containers(j.Spec.Template.Spec.Containers)
	return []any{
		j.Name, jobStatus(j), jobCompletions(j), jobDuration(j), cells.Since(j.CreationTimestamp),
		names, images, metav1.FormatLabelSelector(j.Spec.Selector),
	}
}

// jobStatus returns the job's most relevant condition.
func jobStatus(j *batchv1.Job) string {
	has := map[batchv1.JobConditionType]bool{}
	for _, c := range j.Status.Conditions {
		if _, seen := has[c.Type]; !seen {
			has[c.Type] = c.Status == corev1.ConditionTrue
		}
	}
	switch {
	case has[batchv1.JobComplete]:
		return "Complete"
	case has[batchv1.JobFailed]:
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case has[batchv1.JobSuspended]:
		return "Suspended"
	case has[batchv1.JobFailureTarget]:
		return "FailureTarget"
	case has[batchv1.JobSuccessCriteriaMet]:
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func jobCompletions(j *batchv1.Job) string {
	switch done := j.Status.Succeeded; {
	case j.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", done, *j.Spec.Completions)
	case j.Spec.Parallelism != nil && *j.Spec.Parallelism > 1:
		return fmt.Sprintf("%d/1 of %d", done, *j.Spec.Parallelism)
	default:
		return fmt.Sprintf("%d/1", done)
	}
}

func jobDuration(j *batchv1.Job) string {
	start, end := j.Status.StartTime, j.Status.CompletionTime
	switch {
	case start == nil:
		return ""
	case end == nil:
		return duration.HumanDuration(time.Since(start.Time))
	}
	return duration.HumanDuration(end.Sub(start.Time))
}

func cronJobTable() *engine.Table {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	return engine.TableOf(cronJobRow, cells.Workload(batchv1.JobSpec{}.SwaggerDoc()["selector"],
		cells.Name(),
		cells.String("Schedule", spec["schedule"]),
		cells.String("Timezone", spec["timeZone"]),
		cells.Boolean("Suspend", spec["suspend"]),
		cells.Integer("Active", status["active"]),
		cells.String("Last Schedule", status["lastScheduleTime"]),
		cells.Age(),
	)...)
}

func cronJobRow(cj *batchv1.CronJob) []any {
	last := cells.None
	if t := cj.Status.LastScheduleTime; t != nil {
		last = cells.Since(*t)
	}
	// The column is declared boolean; its cells are strings for compatibility.
	suspend := cells.Unset
	if p := cj.Spec.Suspend; p != nil {
		suspend = map[bool]string{true: "True", false: "False"}[*p]
	}
	job := &cj.Spec.JobTemplate.Spec
	names, images := cells.Containers(job.Template.Spec.Containers)
	return []any{
		cj.Name, cj.Spec.Schedule, cells.Deref(cj.Spec.TimeZone, cells.None), suspend,
		int64(len(cj.Status.Active)), last, cells.Since(cj.CreationTimestamp),
		names, images, metav1.FormatLabelSelector(job.Selector),
	}
}
