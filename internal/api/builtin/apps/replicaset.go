package apps

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func replicaSets(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "replicasets", Kind: "ReplicaSet",
		ShortNames: []string{"rs"},
		Categories: []string{"all"},
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[appsv1.ReplicaSet, appsv1.ReplicaSetList](v1, defaultReplicaSet)},
		Rules: engine.Typed[*appsv1.ReplicaSet]{
			StatusApart: true,
			CountsSpec:  true,
			PrepareCreate: func(_ context.Context, s *appsv1.ReplicaSet) {
				d.Pods.DropDisabledTemplate(&s.Spec.Template, nil)
			},
			PrepareUpdate: func(_ context.Context, s, old *appsv1.ReplicaSet) {
				d.Pods.DropDisabledTemplate(&s.Spec.Template, &old.Spec.Template)
			},
			Validate:       d.validateReplicaSet,
			ValidateUpdate: d.validateReplicaSetUpdate,
			Warn:           warnReplicaSet,
		}.Rules(),
		Subresources: []*engine.Subresource{
			scale(
				func(s *appsv1.ReplicaSet) scaled {
					return scaled{s.Spec.Replicas, s.Status.Replicas, s.Spec.Selector}
				},
				func(s *appsv1.ReplicaSet, replicas int32) { s.Spec.Replicas = &replicas },
			),
			engine.Status(engine.Typed[*appsv1.ReplicaSet]{
				ValidateUpdate: validateReplicaSetStatus,
			}),
		},
		UnknownField: engine.OnlyMetadata,
		Fields: engine.Fields(func(s *appsv1.ReplicaSet) fields.Set {
			return fields.Set{"status.replicas": strconv.Itoa(int(s.Status.Replicas))}
		}),
		Table: replicaSetTable(),
	}
}

func defaultReplicaSet(s *appsv1.ReplicaSet) {
	rules.DefaultPtr(&s.Spec.Replicas, 1)
	podspec.DefaultTemplate(&s.Spec.Template)
}

func warnReplicaSet(_ context.Context, s, old *appsv1.ReplicaSet) []string {
	path := field.NewPath("spec", "template")
	switch {
	case old == nil:
		return append(podspec.WarnName(s.Name), podspec.WarnTemplate(path, &s.Spec.Template, nil)...)
	case s.Generation != old.Generation:
		return podspec.WarnTemplate(path, &s.Spec.Template, &old.Spec.Template)
	}
	return nil
}
