package apps

import (
	"context"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

func (deps Deps) validateDeployment(_ context.Context, d *appsv1.Deployment) field.ErrorList {
	errs := rules.ObjectMeta(&d.ObjectMeta, true, rules.Subdomain)
	return append(errs, deploymentSpec(&d.Spec, podspec.OptionsForTemplate(deps.Pods, nil))...)
}

func (deps Deps) validateDeploymentUpdate(_ context.Context, d, old *appsv1.Deployment) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMetaUpdate(&d.ObjectMeta, &old.ObjectMeta))
	e.Add(deploymentSpec(&d.Spec, podspec.OptionsForTemplate(deps.Pods, &old.Spec.Template)))
	e.Unchanged("selector", d.Spec.Selector, old.Spec.Selector)
	return e.List()
}

func deploymentSpec(s *appsv1.DeploymentSpec, o podspec.Options) field.ErrorList {
	e := rules.At(specPath)
	rules.NonnegativePtr(e, "replicas", s.Replicas)
	e.OwnSelector(s.Selector, "deployment")
	if e.SelectsTemplate(s.Selector, &s.Template) {
		e.Add(podspec.ValidateTemplate(&s.Template, specPath.Child("template"), o))
		e.RunsForEver(&s.Template)
	}
	deploymentStrategy(&s.Strategy, e.Field("strategy"))
	e.Nonnegative("minReadySeconds", int64(s.MinReadySeconds))
	rules.NonnegativePtr(e, "revisionHistoryLimit", s.RevisionHistoryLimit)
	if p := s.ProgressDeadlineSeconds; p != nil {
		rules.NonnegativePtr(e, "progressDeadlineSeconds", p)
		if *p <= s.MinReadySeconds {
			e.Field("progressDeadlineSeconds").Invalid(*p, "must be greater than minReadySeconds")
		}
	}
	return e.List()
}

func deploymentStrategy(s *appsv1.DeploymentStrategy, e rules.Errors) {
	r := e.Field("rollingUpdate")
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			r.Forbidden("may not be specified when strategy `type` is 'Recreate'")
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if s.RollingUpdate == nil {
			r.Required("")
			return
		}
		unavailable, surge := *s.RollingUpdate.MaxUnavailable, *s.RollingUpdate.MaxSurge
		r.IntOrPercent("maxUnavailable", unavailable)
		r.IntOrPercent("maxSurge", surge)
		if rules.Share(unavailable) == 0 && rules.Share(surge) == 0 {
			r.Field("maxUnavailable").Invalid(unavailable, "may not be 0 when `maxSurge` is 0")
		}
		r.AtMostAll("maxUnavailable", unavailable)
	default:
		e.AddError(field.NotSupported(e.Path(), *s, []appsv1.DeploymentStrategyType{
			appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType,
		}))
	}
}

func validateDeploymentStatus(_ context.Context, d, old *appsv1.Deployment) field.ErrorList {
	e := rules.At(statusPath)
	e.Add(rules.ObjectMetaUpdate(&d.ObjectMeta, &old.ObjectMeta))
	s := &d.Status
	e.Nonnegative("observedGeneration", s.ObservedGeneration)
	e.Nonnegative("replicas", int64(s.Replicas))
	e.Nonnegative("updatedReplicas", int64(s.UpdatedReplicas))
	e.Nonnegative("readyReplicas", int64(s.ReadyReplicas))
	e.Nonnegative("availableReplicas", int64(s.AvailableReplicas))
	e.Nonnegative("unavailableReplicas", int64(s.UnavailableReplicas))
	rules.NonnegativePtr(e, "terminatingReplicas", s.TerminatingReplicas)
	rules.NonnegativePtr(e, "collisionCount", s.CollisionCount)
	rules.AtMost(e, "updatedReplicas", s.UpdatedReplicas, s.Replicas, "status.replicas")
	rules.AtMost(e, "readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas")
	rules.AtMost(e, "availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas")
	rules.AtMost(e, "availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
	rules.NeverLess(e, "collisionCount", s.CollisionCount, old.Status.CollisionCount)
	return e.List()
}

func (deps Deps) validateReplicaSet(_ context.Context, s *appsv1.ReplicaSet) field.ErrorList {
	errs := rules.ObjectMeta(&s.ObjectMeta, true, rules.Subdomain)
	return append(errs, replicaSetSpec(&s.Spec, podspec.OptionsForTemplate(deps.Pods, nil))...)
}

func (deps Deps) validateReplicaSetUpdate(_ context.Context, s, old *appsv1.ReplicaSet) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta))
	e.Add(replicaSetSpec(&s.Spec, podspec.OptionsForTemplate(deps.Pods, &old.Spec.Template)))
	e.Unchanged("selector", s.Spec.Selector, old.Spec.Selector)
	return e.List()
}

func replicaSetSpec(s *appsv1.ReplicaSetSpec, o podspec.Options) field.ErrorList {
	e := rules.At(specPath)
	rules.NonnegativePtr(e, "replicas", s.Replicas)
	e.Nonnegative("minReadySeconds", int64(s.MinReadySeconds))
	e.OwnSelector(s.Selector, "deployment")
	if e.SelectsTemplate(s.Selector, &s.Template) {
		e.Add(podspec.ValidateTemplate(&s.Template, specPath.Child("template"), o))
		e.RunsForEver(&s.Template)
	}
	return e.List()
}

func validateReplicaSetStatus(_ context.Context, set, old *appsv1.ReplicaSet) field.ErrorList {
	e := rules.At(statusPath)
	e.Add(rules.ObjectMetaUpdate(&set.ObjectMeta, &old.ObjectMeta))
	s := &set.Status
	e.Nonnegative("replicas", int64(s.Replicas))
	e.Nonnegative("fullyLabeledReplicas", int64(s.FullyLabeledReplicas))
	e.Nonnegative("readyReplicas", int64(s.ReadyReplicas))
	e.Nonnegative("availableReplicas", int64(s.AvailableReplicas))
	e.Nonnegative("observedGeneration", s.ObservedGeneration)
	rules.NonnegativePtr(e, "terminatingReplicas", s.TerminatingReplicas)
	rules.AtMost(e, "fullyLabeledReplicas", s.FullyLabeledReplicas, s.Replicas, "status.replicas")
	rules.AtMost(e, "readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas")
	rules.AtMost(e, "availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas")
	rules.AtMost(e, "availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")
	return e.List()
}

func (deps Deps) validateDaemonSet(_ context.Context, s *appsv1.DaemonSet) field.ErrorList {
	errs := rules.ObjectMeta(&s.ObjectMeta, true, rules.Subdomain)
	return append(errs, daemonSetSpec(s, podspec.OptionsForTemplate(deps.Pods, nil), false)...)
}

func (deps Deps) validateDaemonSetUpdate(_ context.Context, s, old *appsv1.DaemonSet) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta))
	e.Unchanged("selector", s.Spec.Selector, old.Spec.Selector)
	o := podspec.OptionsForTemplate(deps.Pods, &old.Spec.Template)
	e.Add(daemonSetSpec(s, o, rules.InvalidLabelSelector(old.Spec.Selector)))
	return e.List()
}

func daemonSetSpec(set *appsv1.DaemonSet, o podspec.Options, allowInvalidSelector bool) field.ErrorList {
	s := &set.Spec
	e := rules.At(specPath)
	e.LabelSelector("selector", s.Selector, allowInvalidSelector)
	daemonSetSelector(s, e)
	e.Add(podspec.ValidateTemplate(&s.Template, specPath.Child("template"), o))
	e.RunsForEver(&s.Template)
	e.Nonnegative("minReadySeconds", int64(s.MinReadySeconds))
	e.Nonnegative("templateGeneration", templateGeneration(set))
	daemonSetStrategy(&s.UpdateStrategy, e.Field("updateStrategy"))
	rules.NonnegativePtr(e, "revisionHistoryLimit", s.RevisionHistoryLimit)
	return e.List()
}

func daemonSetStrategy(s *appsv1.DaemonSetUpdateStrategy, e rules.Errors) {
	r := e.Field("rollingUpdate")
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if s.RollingUpdate == nil {
			r.Required("")
			return
		}
		unavailable, surge := *s.RollingUpdate.MaxUnavailable, *s.RollingUpdate.MaxSurge
		r.IntOrPercent("maxUnavailable", unavailable)
		r.IntOrPercent("maxSurge", surge)
		r.AtMostAll("maxUnavailable", unavailable)
		r.AtMostAll("maxSurge", surge)
		switch {
		case rules.Share(unavailable) != 0 && rules.Share(surge) != 0:
			r.Field("maxSurge").Invalid(surge, "may not be set when maxUnavailable is non-zero")
		case rules.Share(unavailable) == 0 && rules.Share(surge) == 0:
			r.Field("maxUnavailable").Required("cannot be 0 when maxSurge is 0")
		}
	default:
		e.AddError(field.NotSupported(e.Path(), *s, []appsv1.DaemonSetUpdateStrategyType{
			appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType,
		}))
	}
}

func validateDaemonSetStatus(_ context.Context, set, old *appsv1.DaemonSet) field.ErrorList {
	e := rules.At(statusPath)
	e.Add(rules.ObjectMetaUpdate(&set.ObjectMeta, &old.ObjectMeta))
	s := &set.Status
	e.Nonnegative("currentNumberScheduled", int64(s.CurrentNumberScheduled))
	e.Nonnegative("numberMisscheduled", int64(s.NumberMisscheduled))
	e.Nonnegative("desiredNumberScheduled", int64(s.DesiredNumberScheduled))
	e.Nonnegative("numberReady", int64(s.NumberReady))
	e.Nonnegative("observedGeneration", s.ObservedGeneration)
	e.Nonnegative("updatedNumberScheduled", int64(s.UpdatedNumberScheduled))
	e.Nonnegative("numberAvailable", int64(s.NumberAvailable))
	e.Nonnegative("numberUnavailable", int64(s.NumberUnavailable))
	rules.NonnegativePtr(e, "collisionCount", s.CollisionCount)
	rules.NeverLess(e, "collisionCount", s.CollisionCount, old.Status.CollisionCount)
	return e.List()
}

func validateControllerRevision(_ context.Context, r *appsv1.ControllerRevision) field.ErrorList {
	e := rules.At(nil)
	e.Add(controllerRevision(r))
	var data any
	switch raw := r.Data.Raw; {
	case raw == nil:
		e.Field("data").Required("data is mandatory")
	case json.Unmarshal(raw, &data) != nil:
		e.Field("data").Invalid("<value omitted>", "must be JSON")
	default:
		if _, ok := data.(map[string]any); !ok {
			e.Field("data").Required("data must be a valid JSON object")
		}
	}
	return e.List()
}

func validateControllerRevisionUpdate(_ context.Context, r, old *appsv1.ControllerRevision) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, controllerRevision(r)...)
	if !apiequality.Semantic.DeepEqual(r.Data, old.Data) {
		errs = append(errs, rules.Immutable(r.Data, old.Data, field.NewPath("data"))...)
	}
	return errs
}

func controllerRevision(r *appsv1.ControllerRevision) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&r.ObjectMeta, true, rules.Subdomain))
	e.Nonnegative("revision", r.Revision)
	return e.List()
}
