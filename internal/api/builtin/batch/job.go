package batch

import (
	"context"
	"fmt"
	"math"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// warnJobDelete warns a client that does not specify what happens to the pods.
func warnJobDelete(o *metav1.DeleteOptions) string {
	//lint:ignore SA1019 deprecated for its users, and still served to them
	if o.PropagationPolicy != nil || o.OrphanDependents != nil {
		return ""
	}
	return "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
}

func jobs(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "jobs", Kind: "Job",
		Categories: []string{"all"},
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[batchv1.Job, batchv1.JobList](v1, defaultJob)},

		LateDefaults: true,
		Rules: engine.Typed[*batchv1.Job]{
			StatusApart: true,
			CountsSpec:  true,
			PrepareCreate: func(_ context.Context, j *batchv1.Job) {
				if !*j.Spec.ManualSelector {
					selectOwnPods(j)
				}
				d.Pods.DropDisabledTemplate(&j.Spec.Template, nil)
			},
			PrepareUpdate: func(_ context.Context, j, old *batchv1.Job) {
				d.Pods.DropDisabledTemplate(&j.Spec.Template, &old.Spec.Template)
			},
			Validate:       d.validateJob,
			ValidateUpdate: d.validateJobUpdate,
			Warn:           warnJob,
			// Jobs predate garbage collection; deleting a job without a propagation policy has always kept its pods.
			DefaultOrphan: true,
			WarnDelete:    warnJobDelete,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*batchv1.Job]{
			ValidateUpdate: validateJobStatus,
		})},
		UnknownField: func(label string) error { return fmt.Errorf("field label %q not supported for Job", label) },
		Fields: engine.Fields(func(j *batchv1.Job) fields.Set {
			return fields.Set{"status.successful": strconv.Itoa(int(j.Status.Succeeded))}
		}),
		Table: jobTable(),
	}
}

func defaultJob(j *batchv1.Job) {
	s := &j.Spec
	if s.Completions == nil && s.Parallelism == nil {
		rules.DefaultPtr(&s.Completions, 1)
	}
	rules.DefaultPtr(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		rules.DefaultPtr(&s.BackoffLimit, math.MaxInt32)
	}
	rules.DefaultPtr(&s.BackoffLimit, 6)
	// The map is shared on purpose: labels that a new job's template gets later also become the job's.
	if len(j.Labels) == 0 && s.Template.Labels != nil {
		j.Labels = s.Template.Labels
	}
	rules.DefaultPtr(&s.CompletionMode, batchv1.NonIndexedCompletion)
	rules.DefaultPtr(&s.Suspend, false)
	if s.PodFailurePolicy != nil {
		rules.DefaultPtr(&s.PodReplacementPolicy, batchv1.Failed)
	}
	rules.DefaultPtr(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	rules.DefaultPtr(&s.ManualSelector, false)
	defaultJobTemplate(s)
}

// defaultJobTemplate sets the defaults that jobs and the templates of cron jobs share.
func defaultJobTemplate(s *batchv1.JobSpec) {
	if p := s.PodFailurePolicy; p != nil {
		for i := range p.Rules {
			for k := range p.Rules[i].OnPodConditions {
				rules.Default(&p.Rules[i].OnPodConditions[k].Status, corev1.ConditionTrue)
			}
		}
	}
	podspec.DefaultTemplate(&s.Template)
}

// Labels that connect pods with their job; those without a domain are older.
const (
	legacyJobName       = "job-name"
	legacyControllerUID = "controller-uid"
)

// selectOwnPods labels the job's pods with its name and UID, and selects them by the UID. Values that the user has set
// stay; validation compares them.
func selectOwnPods(j *batchv1.Job) {
	t := &j.Spec.Template
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	uid := string(j.UID)
	for _, l := range []struct{ key, value string }{
		{legacyJobName, j.Name}, {batchv1.JobNameLabel, j.Name},
		{legacyControllerUID, uid}, {batchv1.ControllerUidLabel, uid},
	} {
		if _, found := t.Labels[l.key]; !found {
			t.Labels[l.key] = l.value
		}
	}
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{}
	}
	if j.Spec.Selector.MatchLabels == nil {
		j.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, found := j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !found {
		j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = uid
	}
}

func warnJob(_ context.Context, j, old *batchv1.Job) []string {
	switch {
	case old == nil:
		return append(podspec.WarnName(j.Name), warnJobSpec(specPath, &j.Spec, nil)...)
	case j.Generation != old.Generation:
		return warnJobSpec(specPath, &j.Spec, &old.Spec)
	}
	return nil
}

// Above these limits, the list of completed indexes may not fit into the status.
const (
	manyCompletions = 100_000
	manyParallel    = 10_000
)

func warnJobSpec(path *field.Path, s, old *batchv1.JobSpec) []string {
	var out []string
	if isIndexed(s) && deref(s.Completions) > manyCompletions && deref(s.Parallelism) > manyParallel {
		out = append(out, path.String()+": with so many indexes, completed ones may not be tracked when many fail")
	}
	var oldTemplate *corev1.PodTemplateSpec
	if old != nil {
		oldTemplate = &old.Template
	}
	return append(out, podspec.WarnTemplate(path.Child("template"), &s.Template, oldTemplate)...)
}

func isIndexed(s *batchv1.JobSpec) bool {
	return s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
}

func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}
