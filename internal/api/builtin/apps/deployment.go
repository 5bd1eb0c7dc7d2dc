package apps

import (
	"context"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func deployments(deps Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "deployments", Kind: "Deployment",
		ShortNames: []string{"deploy"},
		Categories: []string{"all"},
		Namespaced: true,
		Versions:   []*engine.Version{deploymentVersion()},
		Rules: engine.Typed[*appsv1.Deployment]{
			StatusApart: true,
			CountsSpec:  true,
			PrepareCreate: func(_ context.Context, d *appsv1.Deployment) {
				deps.Pods.DropDisabledTemplate(&d.Spec.Template, nil)
			},
			PrepareUpdate: func(_ context.Context, d, old *appsv1.Deployment) {
				deps.Pods.DropDisabledTemplate(&d.Spec.Template, &old.Spec.Template)
				// Annotations increment the generation because controllers copy them to replica sets.
				if !maps.Equal(d.Annotations, old.Annotations) {
					d.Generation = old.Generation + 1
				}
			},
			Validate:       deps.validateDeployment,
			ValidateUpdate: deps.validateDeploymentUpdate,
			Warn:           warnDeployment,
		}.Rules(),
		Subresources: []*engine.Subresource{
			scale(
				func(d *appsv1.Deployment) scaled {
					return scaled{d.Spec.Replicas, d.Status.Replicas, d.Spec.Selector}
				},
				func(d *appsv1.Deployment, replicas int32) { d.Spec.Replicas = &replicas },
			),
			engine.Status(engine.Typed[*appsv1.Deployment]{
				PrepareUpdate:  func(_ context.Context, d, old *appsv1.Deployment) { d.Labels = old.Labels },
				ValidateUpdate: validateDeploymentStatus,
				Reset:          engine.ResetFields([]string{"spec"}, []string{"metadata", "labels"}),
			}),
		},
		Table: deploymentTable(),
	}
}

func deploymentVersion() *engine.Version {
	v := engine.VersionOf[appsv1.Deployment, appsv1.DeploymentList](v1, defaultDeployment)
	v.ToHub = checkNumber(appsv1.DeprecatedRollbackTo)
	return v
}

func defaultDeployment(d *appsv1.Deployment) {
	rules.DefaultPtr(&d.Spec.Replicas, 1)
	rules.Default(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		rules.DefaultPtr(&d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		rules.DefaultPtr(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		rules.DefaultPtr(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	rules.DefaultPtr(&d.Spec.RevisionHistoryLimit, 10)
	rules.DefaultPtr(&d.Spec.ProgressDeadlineSeconds, 600)
	podspec.DefaultTemplate(&d.Spec.Template)
}

func warnDeployment(_ context.Context, d, old *appsv1.Deployment) []string {
	path := field.NewPath("spec", "template")
	switch {
	case old == nil:
		return append(podspec.WarnName(d.Name), podspec.WarnTemplate(path, &d.Spec.Template, nil)...)
	case d.Generation != old.Generation:
		return podspec.WarnTemplate(path, &d.Spec.Template, &old.Spec.Template)
	}
	return nil
}
