package apps

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// statefulSetOptions relax rules for stored sets.
type statefulSetOptions struct {
	podspec.Options
	allowInvalidServiceName bool
	skipClaims              bool
	skipTemplate            bool
	allowRecreate           bool
}

func (deps Deps) validateStatefulSet(_ context.Context, s *appsv1.StatefulSet) field.ErrorList {
	errs := rules.ObjectMeta(&s.ObjectMeta, true, rules.Label)
	return append(errs, statefulSetSpec(&s.Spec, statefulSetOptions{
		Options: podspec.OptionsForTemplate(deps.Pods, nil), allowRecreate: deps.Gates.Enabled(features.StatefulSetRecreateStrategy),
	})...)
}

func (deps Deps) validateStatefulSetUpdate(_ context.Context, s, old *appsv1.StatefulSet) field.ErrorList {
	o := statefulSetOptions{
		Options: podspec.OptionsForTemplate(deps.Pods, &old.Spec.Template),
		// Both are immutable, so stored values stay valid.
		allowInvalidServiceName: true,
		skipClaims:              true,
		allowRecreate:           deps.Gates.Enabled(features.StatefulSetRecreateStrategy) || old.Spec.UpdateStrategy.Type == appsv1.RecreateStatefulSetStrategyType,
	}
	o.skipTemplate = len(statefulSetSpec(&old.Spec, o)) > 0
	errs := rules.ObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, statefulSetSpec(&s.Spec, o)...)

	e := rules.At(specPath)
	e.Immutable("selector", s.Spec.Selector, old.Spec.Selector)
	e.Immutable("volumeClaimTemplates", s.Spec.VolumeClaimTemplates, old.Spec.VolumeClaimTemplates)
	e.Immutable("serviceName", s.Spec.ServiceName, old.Spec.ServiceName)
	e.Immutable("podManagementPolicy", s.Spec.PodManagementPolicy, old.Spec.PodManagementPolicy)
	return append(errs, e.List()...)
}

func statefulSetSpec(s *appsv1.StatefulSetSpec, o statefulSetOptions) field.ErrorList {
	e := rules.At(specPath)
	switch s.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	case "":
		e.Field("podManagementPolicy").Required("")
	default:
		e.Field("podManagementPolicy").Invalid(s.PodManagementPolicy, "must be 'OrderedReady' or 'Parallel'")
	}
	statefulSetStrategy(&s.UpdateStrategy, e.Field("updateStrategy"), o.allowRecreate)
	if p := s.PersistentVolumeClaimRetentionPolicy; p != nil {
		policies := []appsv1.PersistentVolumeClaimRetentionPolicyType{
			appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		}
		rules.OneOf(e.Field("persistentVolumeClaimRetentionPolicy"), "whenDeleted", p.WhenDeleted, policies)
		rules.OneOf(e.Field("persistentVolumeClaimRetentionPolicy"), "whenScaled", p.WhenScaled, policies)
	}
	if !o.skipClaims {
		for i := range s.VolumeClaimTemplates {
			rules.ClaimSpec(&s.VolumeClaimTemplates[i].Spec, e.Field("volumeClaimTemplates").Item(i).Field("spec"), rules.ClaimOptions{})
		}
	}
	rules.NonnegativePtr(e, "replicas", s.Replicas)
	e.Nonnegative("minReadySeconds", int64(s.MinReadySeconds))
	if s.Ordinals != nil {
		e.Nonnegative("ordinals.start", int64(s.Ordinals.Start))
	}
	if !o.allowInvalidServiceName && s.ServiceName != "" {
		e.DNSLabel("serviceName", s.ServiceName)
	}
	e.OwnSelector(s.Selector, "statefulset")
	if e.SelectsTemplate(s.Selector, &s.Template) {
		e.Add(statefulSetTemplate(s, o))
	}
	e.RunsForEver(&s.Template)
	return e.List()
}

func statefulSetStrategy(s *appsv1.StatefulSetUpdateStrategy, e rules.Errors, allowRecreate bool) {
	r := e.Field("rollingUpdate")
	switch s.Type {
	case "":
		e.Required("")
	case appsv1.RecreateStatefulSetStrategyType:
		if !allowRecreate {
			e.Invalid(s, "must be 'RollingUpdate' or 'OnDelete'")
		} else if s.RollingUpdate != nil {
			r.Invalid(s.RollingUpdate, "only for updateStrategy RollingUpdate")
		}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if s.RollingUpdate != nil {
			r.Invalid(s.RollingUpdate, "only for updateStrategy RollingUpdate")
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if s.RollingUpdate == nil {
			return
		}
		rules.NonnegativePtr(r, "partition", s.RollingUpdate.Partition)
		if m := s.RollingUpdate.MaxUnavailable; m != nil {
			r.IntOrPercent("maxUnavailable", *m)
			if rules.Share(*m) == 0 {
				r.Field("maxUnavailable").Invalid(*m, "cannot be 0")
			}
			r.AtMostAll("maxUnavailable", *m)
		}
	default:
		e.Invalid(s, "must be 'RollingUpdate' or 'OnDelete'")
	}
}

// statefulSetTemplate validates the template as it will be in pods: with a volume for each claim, and with host names
// that the set chooses.
func statefulSetTemplate(s *appsv1.StatefulSetSpec, o statefulSetOptions) field.ErrorList {
	path := specPath.Child("template")
	e := rules.At(path)
	t := s.Template
	t.Spec.Hostname, t.Spec.Subdomain = "", ""
	if len(s.VolumeClaimTemplates) > 0 {
		t.Spec.Volumes = volumesWithClaims(s)
	}
	if !o.skipTemplate {
		e.Add(podspec.ValidateTemplate(&t, path, o.Options))
	}
	e.Labels("labels", t.Labels)
	e.Annotations("annotations", t.Annotations)
	e.Add(podspec.ValidateAnnotations(t.Annotations, &t.Spec, path.Child("annotations"), o.Options))
	return e.List()
}

func volumesWithClaims(s *appsv1.StatefulSetSpec) []corev1.Volume {
	var out []corev1.Volume
	seen := map[string]bool{}
	for i := range s.VolumeClaimTemplates {
		name := s.VolumeClaimTemplates[i].Name
		if seen[name] {
			continue
		}
		seen[name] = true
		out = append(out, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	for _, v := range s.Template.Spec.Volumes {
		if !seen[v.Name] {
			out = append(out, v)
		}
	}
	return out
}

// daemonSetSelector is less strict than for other kinds: daemon sets without a selector were once accepted.
func daemonSetSelector(s *appsv1.DaemonSetSpec, e rules.Errors) {
	selector, err := metav1.LabelSelectorAsSelector(s.Selector)
	if err == nil && !selector.Matches(labels.Set(s.Template.Labels)) {
		e.Field("template").Field("metadata").Field("labels").Invalid(s.Template.Labels, "`selector` does not match template `labels`")
	}
	if s.Selector != nil && len(s.Selector.MatchLabels)+len(s.Selector.MatchExpressions) == 0 {
		e.Field("selector").Invalid(s.Selector, "empty selector is invalid for daemonset")
	}
}

func validateStatefulSetStatus(_ context.Context, set, old *appsv1.StatefulSet) field.ErrorList {
	e := rules.At(statusPath)
	e.Add(rules.ObjectMetaUpdate(&set.ObjectMeta, &old.ObjectMeta))
	s := &set.Status
	e.Nonnegative("replicas", int64(s.Replicas))
	e.Nonnegative("readyReplicas", int64(s.ReadyReplicas))
	e.Nonnegative("currentReplicas", int64(s.CurrentReplicas))
	e.Nonnegative("updatedReplicas", int64(s.UpdatedReplicas))
	e.Nonnegative("availableReplicas", int64(s.AvailableReplicas))
	e.Nonnegative("observedGeneration", s.ObservedGeneration)
	rules.NonnegativePtr(e, "collisionCount", s.CollisionCount)
	rules.AtMost(e, "readyReplicas", s.ReadyReplicas, s.Replicas, "status.replicas")
	rules.AtMost(e, "currentReplicas", s.CurrentReplicas, s.Replicas, "status.replicas")
	rules.AtMost(e, "updatedReplicas", s.UpdatedReplicas, s.Replicas, "status.replicas")
	rules.AtMost(e, "availableReplicas", s.AvailableReplicas, s.Replicas, "status.replicas")
	rules.AtMost(e, "availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "status.readyReplicas")
	rules.NeverLess(e, "collisionCount", s.CollisionCount, old.Status.CollisionCount)
	return e.List()
}
