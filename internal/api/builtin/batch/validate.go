package batch

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

// Limits of indexed jobs, so that their lists of indexes fit into the status.
const (
	maxIndexedParallelism = 100_000
	maxFailedIndexes      = 100_000
	// For jobs with many completions that count failures per index.
	maxFailedIndexesOfMany = 10_000
)

func (deps Deps) validateJob(_ context.Context, j *batchv1.Job) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&j.ObjectMeta, true, rules.Subdomain))
	if !deref(j.Spec.ManualSelector) && j.Spec.Selector != nil {
		ownSelector(j, e)
	}
	e.Add(job(j, podspec.OptionsForTemplate(deps.Pods, nil), false))
	deps.scheduling(&j.Spec, nil, e)
	return e.List()
}

func (deps Deps) validateJobUpdate(_ context.Context, j, old *batchv1.Job) field.ErrorList {
	o := podspec.OptionsForTemplate(deps.Pods, &old.Spec.Template)
	e := rules.At(specPath)
	e.Add(rules.ObjectMetaUpdate(&j.ObjectMeta, &old.ObjectMeta))
	e.Add(job(j, o, rules.InvalidLabelSelector(old.Spec.Selector)))
	s, was := &j.Spec, &old.Spec
	switch {
	case !isIndexed(s):
		e.Unchanged("completions", s.Completions, was.Completions)
	case s.Completions != nil && !apiequality.Semantic.DeepEqual(s.Completions, was.Completions) && *s.Completions != *s.Parallelism:
		e.Field("completions").Invalid(*s.Completions, "can only be modified in tandem with spec.parallelism")
	}
	e.Unchanged("selector", s.Selector, was.Selector)
	deps.templateUpdate(s, old, e)
	e.Unchanged("completionMode", s.CompletionMode, was.CompletionMode)
	e.Unchanged("podFailurePolicy", s.PodFailurePolicy, was.PodFailurePolicy)
	e.Unchanged("backoffLimitPerIndex", s.BackoffLimitPerIndex, was.BackoffLimitPerIndex)
	e.Unchanged("managedBy", s.ManagedBy, was.ManagedBy)
	e.Unchanged("successPolicy", s.SuccessPolicy, was.SuccessPolicy)
	samePolicy(s, was, e)
	deps.scheduling(s, was, e)
	return e.List()
}

// templateUpdate checks that the template does not change. While a job is suspended and has no running pods, a queue
// may change its scheduling fields and resources.
func (deps Deps) templateUpdate(s *batchv1.JobSpec, old *batchv1.Job, e rules.Errors) {
	suspended, started := deref(old.Spec.Suspend), old.Status.StartTime != nil
	idle := suspended && old.Status.Active == 0 && (!started || isTrue(old.Status.Conditions, batchv1.JobSuspended))
	scheduling, resources := suspended && !started, idle && deps.Pods.Gates.Enabled(features.MutablePodResourcesForSuspendedJobs)
	if deps.Pods.Gates.Enabled(features.MutableSchedulingDirectivesForSuspendedJobs) {
		scheduling = idle
	}
	want := &old.Spec.Template
	if scheduling || resources {
		want = want.DeepCopy()
	}
	if scheduling {
		allowScheduling(&s.Template, want)
	}
	if !resources {
		e.Unchanged("template", &s.Template, want)
		return
	}
	allowResources(s.Template.Spec.Containers, want.Spec.Containers)
	allowResources(s.Template.Spec.InitContainers, want.Spec.InitContainers)
	e.Unchanged("template.spec", s.Template.Spec, want.Spec)
}

// allowScheduling copies what a scheduler goes by to want.
func allowScheduling(t, want *corev1.PodTemplateSpec) {
	affinity := t.Spec.Affinity
	switch {
	case affinity == nil && want.Spec.Affinity != nil:
		want.Spec.Affinity.NodeAffinity = nil
		if *want.Spec.Affinity == (corev1.Affinity{}) {
			want.Spec.Affinity = nil
		}
	case affinity != nil && want.Spec.Affinity == nil:
		want.Spec.Affinity = &corev1.Affinity{NodeAffinity: affinity.NodeAffinity}
	case affinity != nil:
		want.Spec.Affinity.NodeAffinity = affinity.NodeAffinity
	}
	want.Labels, want.Annotations = t.Labels, t.Annotations
	want.Spec.NodeSelector = t.Spec.NodeSelector
	want.Spec.Tolerations = t.Spec.Tolerations
	want.Spec.SchedulingGates = t.Spec.SchedulingGates
}

func allowResources(containers, want []corev1.Container) {
	if len(containers) != len(want) {
		return
	}
	for i := range containers {
		if containers[i].Name == want[i].Name {
			want[i].Resources = containers[i].Resources
		}
	}
}

func job(j *batchv1.Job, o podspec.Options, allowInvalidSelector bool) field.ErrorList {
	s := &j.Spec
	e := rules.At(specPath)
	jobSpec(s, e, o)
	if s.Selector == nil {
		e.Field("selector").Required("")
	} else {
		e.LabelSelector("selector", s.Selector, allowInvalidSelector)
	}
	if selector, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil && !selector.Matches(labels.Set(s.Template.Labels)) {
		e.Field("template").Field("metadata").Field("labels").Invalid(s.Template.Labels, "`selector` does not match template `labels`")
	}
	if isIndexed(s) && deref(s.Completions) > 0 {
		last := fmt.Sprintf("%s-%d", j.Name, *s.Completions-1)
		if len(validation.IsDNS1123Label(last)) > 0 {
			e.Elsewhere(field.NewPath("metadata", "name")).Invalid(j.Name, "will not able to create pod with invalid DNS label: "+last)
		}
	}
	return e.List()
}

// ownSelector checks that labels and selector are those that the server generates. A client may send these values, but
// no others.
func ownSelector(j *batchv1.Job, e rules.Errors) {
	uid := string(j.UID)
	if uid == "" {
		e.Elsewhere(field.NewPath("metadata", "uid")).Required("")
	}
	want := labels.Set{legacyControllerUID: uid, legacyJobName: j.Name, batchv1.ControllerUidLabel: uid, batchv1.JobNameLabel: j.Name}
	keys := []string{legacyControllerUID, legacyJobName, batchv1.ControllerUidLabel, batchv1.JobNameLabel}
	at := e.Field("template").Field("metadata").Field("labels")
	for _, key := range keys {
		switch value, found := j.Spec.Template.Labels[key]; {
		case !found:
			at.Key(key).Required("must be '" + want[key] + "'")
		case value != want[key]:
			at.Key(key).Invalid(value, "must be '"+want[key]+"'")
		}
	}
	if selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !selector.Matches(want) {
		e.Field("selector").Invalid(j.Spec.Selector, "`selector` not auto-generated")
	}
}

// jobSpec validates the fields that jobs and the templates of cron jobs share.
func jobSpec(s *batchv1.JobSpec, e rules.Errors, o podspec.Options) {
	rules.NonnegativePtr(e, "parallelism", s.Parallelism)
	rules.NonnegativePtr(e, "completions", s.Completions)
	rules.NonnegativePtr(e, "activeDeadlineSeconds", s.ActiveDeadlineSeconds)
	rules.NonnegativePtr(e, "backoffLimit", s.BackoffLimit)
	rules.NonnegativePtr(e, "ttlSecondsAfterFinished", s.TTLSecondsAfterFinished)
	rules.NonnegativePtr(e, "backoffLimitPerIndex", s.BackoffLimitPerIndex)
	if s.MaxFailedIndexes != nil {
		rules.NonnegativePtr(e, "maxFailedIndexes", s.MaxFailedIndexes)
		if s.BackoffLimitPerIndex == nil {
			e.Field("backoffLimitPerIndex").Required("when maxFailedIndexes is specified")
		}
	}
	if m := s.ManagedBy; m != nil {
		e.Add(validation.IsDomainPrefixedPath(e.Path().Child("managedBy"), *m))
		if len(*m) > 63 {
			e.Field("managedBy").TooLong(63)
		}
	}
	completionMode(s, e)
	if s.PodFailurePolicy != nil {
		podFailurePolicy(s, e.Field("podFailurePolicy").Field("rules"))
	}
	if s.SuccessPolicy != nil {
		if isIndexed(s) {
			successPolicy(s, e.Field("successPolicy").Field("rules"))
		} else {
			e.Field("successPolicy").Invalid(*s.SuccessPolicy, "requires indexed completion mode")
		}
	}
	if p := s.PodReplacementPolicy; p != nil {
		allowed := []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
		if s.PodFailurePolicy != nil {
			allowed = allowed[:1]
		}
		rules.OneOf(e, "podReplacementPolicy", *p, allowed)
	}
	e.Add(podspec.ValidateTemplate(&s.Template, e.Path().Child("template"), o))
	restartPolicy(s, e.Field("template").Field("spec"))
}

func restartPolicy(s *batchv1.JobSpec, e rules.Errors) {
	switch p := s.Template.Spec.RestartPolicy; {
	case p == corev1.RestartPolicyAlways || p == "":
		e.Field("restartPolicy").Required(`valid values: "OnFailure", "Never"`)
	case p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever:
		rules.OneOf(e, "restartPolicy", p, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever})
	case p != corev1.RestartPolicyNever && s.PodFailurePolicy != nil:
		e.Field("restartPolicy").Invalid(p, "must be Never when podFailurePolicy is set")
	}
}

func completionMode(s *batchv1.JobSpec, e rules.Errors) {
	if m := s.CompletionMode; m != nil {
		rules.OneOf(e, "completionMode", *m, []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion})
	}
	if !isIndexed(s) {
		if s.CompletionMode != nil && *s.CompletionMode != batchv1.NonIndexedCompletion {
			return
		}
		if p := s.BackoffLimitPerIndex; p != nil {
			e.Field("backoffLimitPerIndex").Invalid(*p, "requires indexed completion mode")
		}
		if p := s.MaxFailedIndexes; p != nil {
			e.Field("maxFailedIndexes").Invalid(*p, "requires indexed completion mode")
		}
		return
	}
	if s.Completions == nil {
		e.Field("completions").Required("when completion mode is Indexed")
	}
	if p := s.Parallelism; p != nil {
		atMost(e, "parallelism", *p, maxIndexedParallelism)
	}
	if m := s.MaxFailedIndexes; m != nil {
		if s.Completions != nil {
			atMost(e, "maxFailedIndexes", *m, *s.Completions)
		}
		atMost(e, "maxFailedIndexes", *m, maxFailedIndexes)
	}
	if deref(s.Completions) <= manyCompletions || s.BackoffLimitPerIndex == nil {
		return
	}
	if m := s.MaxFailedIndexes; m == nil {
		e.Field("maxFailedIndexes").Required(fmt.Sprintf("must be specified when completions is above %d", manyCompletions))
	} else {
		atMost(e, "maxFailedIndexes", *m, maxFailedIndexesOfMany)
	}
	if p := s.Parallelism; p != nil {
		atMost(e, "parallelism", *p, manyParallel)
	}
}

func atMost(e rules.Errors, name string, value, limit int32) {
	if value > limit {
		e.Field(name).Invalid(value, fmt.Sprintf("must be less than or equal to %d", limit))
	}
}

var failureActions = []batchv1.PodFailurePolicyAction{
	batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
	batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore,
}

func podFailurePolicy(s *batchv1.JobSpec, e rules.Errors) {
	list := s.PodFailurePolicy.Rules
	tooMany(e, len(list), 20)
	var names []string
	for i := range s.Template.Spec.Containers {
		names = append(names, s.Template.Spec.Containers[i].Name)
	}
	for i := range s.Template.Spec.InitContainers {
		names = append(names, s.Template.Spec.InitContainers[i].Name)
	}
	for i := range list {
		r, at := &list[i], e.Item(i)
		rules.RequiredOneOf(at, "action", r.Action, failureActions)
		if r.Action == batchv1.PodFailurePolicyActionFailIndex && s.BackoffLimitPerIndex == nil {
			at.Field("action").Invalid(r.Action, "requires the backoffLimitPerIndex to be set")
		}
		if r.OnExitCodes != nil {
			exitCodes(r.OnExitCodes, names, at.Field("onExitCodes"))
		}
		conditions := at.Field("onPodConditions")
		tooMany(conditions, len(r.OnPodConditions), 20)
		for k, p := range r.OnPodConditions {
			conditions.Item(k).Field("type").QualifiedName(string(p.Type))
			rules.RequiredOneOf(conditions.Item(k), "status", p.Status, []corev1.ConditionStatus{
				corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown,
			})
		}
		switch codes, conditions := r.OnExitCodes != nil, len(r.OnPodConditions) > 0; {
		case codes && conditions:
			at.Invalid(field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported")
		case !codes && !conditions:
			at.Invalid(field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required")
		}
	}
}

func tooMany(e rules.Errors, n, limit int) {
	if n > limit {
		e.AddError(field.TooMany(e.Path(), n, limit))
	}
}

func exitCodes(r *batchv1.PodFailurePolicyOnExitCodesRequirement, containers []string, e rules.Errors) {
	rules.RequiredOneOf(e, "operator", r.Operator, []batchv1.PodFailurePolicyOnExitCodesOperator{
		batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn,
	})
	if c := r.ContainerName; c != nil && !slices.Contains(containers, *c) {
		e.Field("containerName").Invalid(*c, "must be one of the container or initContainer names in the pod template")
	}
	values := e.Field("values")
	if len(r.Values) == 0 {
		values.Invalid(r.Values, "at least one value is required")
	}
	tooMany(values, len(r.Values), 255)
	seen := map[int32]bool{}
	for i, v := range r.Values {
		if v == 0 && r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			values.Item(i).Invalid(v, "must not be 0 for the In operator")
		}
		if seen[v] {
			values.Item(i).Duplicate(v)
		}
		seen[v] = true
	}
	if !slices.IsSorted(r.Values) {
		values.Invalid(r.Values, "must be ordered")
	}
}

func successPolicy(s *batchv1.JobSpec, e rules.Errors) {
	list := s.SuccessPolicy.Rules
	if len(list) == 0 {
		e.Required("at least one rules must be specified when the successPolicy is specified")
	}
	tooMany(e, len(list), 20)
	completions := deref(s.Completions)
	for i := range list {
		r, at := &list[i], e.Item(i)
		if r.SucceededCount == nil && r.SucceededIndexes == nil {
			at.Required("at least one of succeededCount or succeededIndexes must be specified")
		}
		var total int32
		if text := r.SucceededIndexes; text != nil {
			if len(*text) > 64*1024 {
				at.Field("succeededIndexes").TooLong(64 * 1024)
			}
			indexes, err := parseIndexes(*text, completions)
			if err != nil {
				at.Field("succeededIndexes").Invalid(*text, "error parsing succeededIndexes: "+err.Error())
			} else {
				total = indexes.count()
			}
		}
		if n := r.SucceededCount; n != nil {
			rules.NonnegativePtr(at, "succeededCount", n)
			atMost(at, "succeededCount", *n, completions)
			if r.SucceededIndexes != nil {
				atMost(at, "succeededCount", *n, total)
			}
		}
	}
}
