package controllers

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/engine/inprocess"
	"github.com/kanzen-io/kanzen/internal/request"
	"github.com/kanzen-io/kanzen/internal/store"
)

// runTTLAfterFinished deletes finished jobs after the time that they specify.
func runTTLAfterFinished(ctx context.Context, c Config, cl *inprocess.Client) {
	ep := c.endpoint(batchv1.Resource("jobs"))
	jobs := engine.IndexOf[*batchv1.Job](ep)
	look := func(ctx context.Context, key string) (time.Duration, error) {
		job, ok, err := get(ctx, jobs, key)
		if !ok {
			return 0, err
		}
		finished, ok := finishedAt(job)
		if !ok || job.DeletionTimestamp != nil || job.Spec.TTLSecondsAfterFinished == nil {
			return 0, nil
		}
		ttl := time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second
		if left := finished.Add(ttl).Sub(c.Clock.Now()); left > 0 {
			return left, nil
		}
		// Its time may have been extended meanwhile.
		policy := metav1.DeletePropagationForeground
		return 0, ignoreMissing(cl.Delete(ctx, at(ep, ""), request.Unchanged(job), &metav1.DeleteOptions{PropagationPolicy: &policy}))
	}
	c.work(ctx, "ttl_jobs_to_delete", look, follow(jobs, func(c store.Change[*batchv1.Job]) (string, bool) {
		return c.Key, c.Now != nil && c.Now.Spec.TTLSecondsAfterFinished != nil
	}))
}

// finishedAt returns when a job finished; ok is false if it has not.
func finishedAt(job *batchv1.Job) (at time.Time, ok bool) {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, !c.LastTransitionTime.IsZero()
		}
	}
	return at, false
}
