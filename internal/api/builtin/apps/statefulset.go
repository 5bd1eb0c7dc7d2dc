package apps

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func statefulSets(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "statefulsets", Kind: "StatefulSet",
		ShortNames: []string{"sts"},
		Categories: []string{"all"},
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[appsv1.StatefulSet, appsv1.StatefulSetList](v1, d.defaultStatefulSet)},
		Rules: engine.Typed[*appsv1.StatefulSet]{
			StatusApart: true,
			CountsSpec:  true,
			PrepareCreate: func(_ context.Context, s *appsv1.StatefulSet) {
				d.Pods.DropDisabledTemplate(&s.Spec.Template, nil)
			},
			PrepareUpdate: func(_ context.Context, s, old *appsv1.StatefulSet) {
				d.Pods.DropDisabledTemplate(&s.Spec.Template, &old.Spec.Template)
			},
			Validate:       d.validateStatefulSet,
			ValidateUpdate: d.validateStatefulSetUpdate,
			Warn:           warnStatefulSet,
		}.Rules(),
		Subresources: []*engine.Subresource{
			scale(
				func(s *appsv1.StatefulSet) scaled {
					return scaled{s.Spec.Replicas, s.Status.Replicas, s.Spec.Selector}
				},
				func(s *appsv1.StatefulSet, replicas int32) { s.Spec.Replicas = &replicas },
			),
			engine.Status(engine.Typed[*appsv1.StatefulSet]{
				ValidateUpdate: validateStatefulSetStatus,
			}),
		},
		Table: statefulSetTable(),
	}
}

func (d Deps) defaultStatefulSet(s *appsv1.StatefulSet) {
	spec := &s.Spec
	rules.Default(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	strategy := &spec.UpdateStrategy
	if strategy.Type == "" {
		strategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		rules.DefaultPtr(&strategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && strategy.RollingUpdate != nil {
		rules.DefaultPtr(&strategy.RollingUpdate.Partition, 0)
		if d.Gates.Enabled(features.MaxUnavailableStatefulSet) {
			rules.DefaultPtr(&strategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		}
	}
	rules.DefaultPtr(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	retention := spec.PersistentVolumeClaimRetentionPolicy
	rules.Default(&retention.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	rules.Default(&retention.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	rules.DefaultPtr(&spec.Replicas, 1)
	rules.DefaultPtr(&spec.RevisionHistoryLimit, 10)
	podspec.DefaultTemplate(&spec.Template)
	for i := range spec.VolumeClaimTemplates {
		c := &spec.VolumeClaimTemplates[i]
		// The claim templates are whole objects, and always have apiVersion and kind.
		c.APIVersion, c.Kind = "v1", "PersistentVolumeClaim"
		rules.Default(&c.Status.Phase, corev1.ClaimPending)
		rules.DefaultClaimSpec(&c.Spec)
		rules.DefaultResources(c.Status.Capacity, c.Status.AllocatedResources)
	}
}

func warnStatefulSet(_ context.Context, s, old *appsv1.StatefulSet) []string {
	var out []string
	path := field.NewPath("spec", "template")
	switch {
	case old == nil:
		out = podspec.WarnTemplate(path, &s.Spec.Template, nil)
	case s.Generation != old.Generation:
		out = podspec.WarnTemplate(path, &s.Spec.Template, &old.Spec.Template)
	}
	claims := field.NewPath("spec", "volumeClaimTemplates")
	for i := range s.Spec.VolumeClaimTemplates {
		out = append(out, rules.WarnClaimSpec(&s.Spec.VolumeClaimTemplates[i].Spec, claims.Index(i))...)
	}
	if l := s.Spec.RevisionHistoryLimit; l != nil && *l < 0 {
		out = append(out, "spec.revisionHistoryLimit: a negative limit keeps all revisions; it should be 0 or more")
	}
	return out
}
