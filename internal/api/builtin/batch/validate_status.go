package batch

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// outcome is the progress of a job, from its conditions.
type outcome struct {
	complete, failed, failing, succeeding bool
}

func outcomeOf(j *batchv1.Job) outcome {
	c := j.Status.Conditions
	return outcome{
		complete:   isTrue(c, batchv1.JobComplete),
		failed:     isTrue(c, batchv1.JobFailed),
		failing:    isTrue(c, batchv1.JobFailureTarget),
		succeeding: isTrue(c, batchv1.JobSuccessCriteriaMet),
	}
}

func (o outcome) finished() bool { return o.complete || o.failed }

func isTrue(list []batchv1.JobCondition, t batchv1.JobConditionType) bool {
	return hasCondition(list, t, corev1.ConditionTrue)
}

func hasCondition(list []batchv1.JobCondition, t batchv1.JobConditionType, status corev1.ConditionStatus) bool {
	for _, c := range list {
		if c.Type == t && c.Status == status {
			return true
		}
	}
	return false
}

// validateJobStatus makes controllers keep the guarantees on which users of jobs rely. Most rules check only what
// changes, because older statuses were written under fewer rules.
func validateJobStatus(_ context.Context, j, old *batchv1.Job) field.ErrorList {
	e := rules.At(statusPath)
	e.Add(rules.ObjectMetaUpdate(&j.ObjectMeta, &old.ObjectMeta))
	jobCounters(j, old, e)
	jobConditions(j, old, e)
	jobTimes(j, old, e)
	jobIndexes(j, old, e)
	return e.List()
}

func jobCounters(j, old *batchv1.Job, e rules.Errors) {
	s, was := &j.Status, &old.Status
	finished := outcomeOf(j).finished()
	finishedChanged := finished != outcomeOf(old).finished()
	changed := func(a, b any) bool { return !apiequality.Semantic.DeepEqual(a, b) }

	e.Nonnegative("active", int64(s.Active))
	e.Nonnegative("succeeded", int64(s.Succeeded))
	e.Nonnegative("failed", int64(s.Failed))
	rules.NonnegativePtr(e, "ready", s.Ready)
	rules.NonnegativePtr(e, "terminating", s.Terminating)
	uncounted := s.UncountedTerminatedPods
	if uncounted != nil {
		at, seen := e.Field("uncountedTerminatedPods"), map[types.UID]bool{}
		uncountedPods(uncounted.Succeeded, seen, at.Field("succeeded"))
		uncountedPods(uncounted.Failed, seen, at.Field("failed"))
	}
	if finished && s.Active > 0 && (finishedChanged || s.Active != was.Active) {
		e.Field("active").Invalid(s.Active, "active>0 is invalid for finished job")
	}
	if finished && uncounted != nil && len(uncounted.Failed)+len(uncounted.Succeeded) > 0 &&
		(finishedChanged || changed(uncounted, was.UncountedTerminatedPods)) {
		e.Field("uncountedTerminatedPods").Invalid(uncounted, "must be empty for finished job")
	}
	if finished && deref(s.Terminating) > 0 && (finishedChanged || changed(s.Terminating, was.Terminating)) {
		e.Field("terminating").Invalid(*s.Terminating, "terminating>0 is invalid for finished job")
	}
	if s.Ready != nil && *s.Ready > s.Active && (changed(s.Ready, was.Ready) || s.Active != was.Active) {
		e.Field("ready").Invalid(*s.Ready, "cannot set more ready pods than active")
	}
	if s.Failed < was.Failed {
		e.Field("failed").Invalid(s.Failed, "cannot decrease the failed counter")
	}
	// Elastic indexed jobs drop the indexes that are removed by scaling down.
	elastic := isIndexed(&j.Spec) && apiequality.Semantic.DeepEqual(j.Spec.Completions, j.Spec.Parallelism)
	if s.Succeeded < was.Succeeded && !elastic {
		e.Field("succeeded").Invalid(s.Succeeded, "cannot decrease the succeeded counter")
	}
}

func uncountedPods(uids []types.UID, seen map[types.UID]bool, e rules.Errors) {
	for i, uid := range uids {
		switch {
		case uid == "":
			e.Item(i).Invalid(uid, "must not be empty")
		case seen[uid]:
			e.Item(i).Duplicate(uid)
		}
		seen[uid] = true
	}
}

func jobConditions(j, old *batchv1.Job, e rules.Errors) {
	is, was := outcomeOf(j), outcomeOf(old)
	refuse := func(when bool, why string) {
		if when {
			e.Field("conditions").Invalid(field.OmitValueType{}, why)
		}
	}
	completeChanged, failedChanged := is.complete != was.complete, is.failed != was.failed
	failingChanged, succeedingChanged := is.failing != was.failing, is.succeeding != was.succeeding
	indexesChanged := !apiequality.Semantic.DeepEqual(j.Status.FailedIndexes, old.Status.FailedIndexes)

	refuse(is.complete && is.failed && (completeChanged || failedChanged), "cannot be both Complete and Failed")
	refuse(is.complete && is.failing && (completeChanged || failingChanged), "cannot be both Complete and FailureTarget")
	refuse(is.failed && !is.failing && (failedChanged || indexesChanged), "cannot be Failed without FailureTarget")
	refuse(is.complete && !is.succeeding && (completeChanged || succeedingChanged), "cannot be Complete without SuccessCriteriaMet")
	refuse(is.succeeding && is.failed, "cannot be both SuccessCriteriaMet and Failed")
	refuse(is.succeeding && is.failing, "cannot be both SuccessCriteriaMet and FailureTarget")
	refuse(j.Spec.SuccessPolicy != nil && is.complete && !is.succeeding, "cannot be Complete without SuccessCriteriaMet")
	for _, c := range []struct {
		name    string
		is, was bool
	}{
		{"Failed", is.failed, was.failed}, {"Complete", is.complete, was.complete},
		{"FailureTarget", is.failing, was.failing}, {"SuccessCriteriaMet", is.succeeding, was.succeeding},
	} {
		refuse(c.was && !c.is, fmt.Sprintf("cannot take back %s", c.name))
	}
	refuse(was.complete && !was.succeeding && is.succeeding, "cannot add SuccessCriteriaMet to a job that is Complete")
}

func jobTimes(j, old *batchv1.Job, e rules.Errors) {
	s, was := &j.Status, &old.Status
	is := outcomeOf(j)
	completeChanged := is.complete != outcomeOf(old).complete
	finishedChanged := is.finished() != outcomeOf(old).finished()
	startChanged := !apiequality.Semantic.DeepEqual(s.StartTime, was.StartTime)
	endChanged := !apiequality.Semantic.DeepEqual(s.CompletionTime, was.CompletionTime)

	if s.CompletionTime != nil && !is.complete && (completeChanged || endChanged) {
		e.Field("completionTime").Invalid(s.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
	}
	if s.CompletionTime == nil && is.complete && (completeChanged || endChanged) {
		e.Field("completionTime").Required("completionTime is required for Complete jobs")
	}
	if s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) && (startChanged || endChanged) {
		e.Field("completionTime").Invalid(s.CompletionTime, "must be equal to or after `startTime`")
	}
	if s.CompletionTime != nil && was.CompletionTime != nil && endChanged {
		e.Field("completionTime").Invalid(s.CompletionTime, "field is immutable")
	}
	// A suspended job without completions finishes without ever starting.
	idle := deref(j.Spec.Suspend) && j.Spec.Completions != nil && *j.Spec.Completions == 0
	if s.StartTime == nil && is.finished() && (finishedChanged || startChanged) && !idle {
		e.Field("startTime").Required("startTime is required for finished job")
	}
	resuming := isTrue(was.Conditions, batchv1.JobSuspended) && hasCondition(s.Conditions, batchv1.JobSuspended, corev1.ConditionFalse)
	if was.StartTime != nil && startChanged && !resuming && !deref(j.Spec.Suspend) {
		e.Field("startTime").Invalid(s.StartTime, "field is immutable for unsuspended job once set")
	}
}

func jobIndexes(j, old *batchv1.Job, e rules.Errors) {
	s, was := &j.Status, &old.Status
	completedChanged := s.CompletedIndexes != was.CompletedIndexes
	failedChanged := !apiequality.Semantic.DeepEqual(s.FailedIndexes, was.FailedIndexes)
	completed, failed := e.Field("completedIndexes"), e.Field("failedIndexes")

	if n := j.Spec.Completions; n != nil {
		if completedChanged {
			if _, err := parseIndexes(s.CompletedIndexes, *n); err != nil {
				completed.Invalid(s.CompletedIndexes, "error parsing completedIndexes: "+err.Error())
			}
		}
		if failedChanged && j.Spec.BackoffLimitPerIndex != nil && s.FailedIndexes != nil {
			if _, err := parseIndexes(*s.FailedIndexes, *n); err != nil {
				failed.Invalid(*s.FailedIndexes, "error parsing failedIndexes: "+err.Error())
			}
		}
		if (failedChanged || completedChanged) && s.FailedIndexes != nil && overlap(s.CompletedIndexes, *s.FailedIndexes, *n) {
			failed.Invalid(*s.FailedIndexes, "overlaps completedIndexes")
		}
	}
	if completedChanged && s.CompletedIndexes != "" && !isIndexed(&j.Spec) {
		completed.Invalid(s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if failedChanged && s.FailedIndexes != nil && j.Spec.BackoffLimitPerIndex == nil {
		failed.Invalid(*s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
}
