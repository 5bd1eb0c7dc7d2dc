// Package autoscaling is the API group autoscaling: horizontal pod autoscalers in v1 and v2. They are stored as v2;
// what v1 cannot express is in annotations (convert_v1.go).
package autoscaling

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	v1 = autoscalingv1.SchemeGroupVersion
	v2 = autoscalingv2.SchemeGroupVersion
)

// defaultCPUUtilization is the default target without metrics, in percent.
const defaultCPUUtilization int32 = 80

// Deps is what this group needs from the rest of the server.
type Deps struct {
	// Gates says which features are on.
	Gates features.Set
}

// Resources returns every resource of the group.
func Resources(d Deps) []*engine.Resource {
	return engine.Kinds(horizontalPodAutoscalers(d))
}

func horizontalPodAutoscalers(d Deps) *engine.Resource {
	inV1 := engine.VersionOf[autoscalingv1.HorizontalPodAutoscaler, autoscalingv1.HorizontalPodAutoscalerList](v1, defaultV1)
	inV1.ToHub, inV1.FromHub = fromV1, toV1
	inV2 := engine.VersionOf[autoscalingv2.HorizontalPodAutoscaler, autoscalingv2.HorizontalPodAutoscalerList](v2, defaultV2)
	inV2.ToHub = dropV1Annotations
	return &engine.Resource{
		Plural: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler",
		ShortNames: []string{"hpa"},
		Categories: []string{"all"},
		Namespaced: true,
		Versions:   []*engine.Version{inV2, inV1},
		Rules: engine.Typed[*autoscalingv2.HorizontalPodAutoscaler]{
			StatusApart:    true,
			CountsSpec:     d.Gates.Enabled(features.HPAGeneration),
			Validate:       d.validate,
			ValidateUpdate: d.validateUpdate,
		}.Rules(),
		Subresources: []*engine.Subresource{engine.Status(engine.Typed[*autoscalingv2.HorizontalPodAutoscaler]{
			ValidateUpdate: validateStatus,
		})},
		Table: horizontalPodAutoscalerTable(),

		HiddenAnnotations: v1Annotations,
	}
}

func defaultV1(a *autoscalingv1.HorizontalPodAutoscaler) {
	rules.DefaultPtr(&a.Spec.MinReplicas, 1)
}

func defaultV2(a *autoscalingv2.HorizontalPodAutoscaler) {
	rules.DefaultPtr(&a.Spec.MinReplicas, 1)
	if len(a.Spec.Metrics) == 0 {
		a.Spec.Metrics = []autoscalingv2.MetricSpec{cpuUtilization(defaultCPUUtilization)}
	}
	if b := a.Spec.Behavior; b != nil {
		// Scale up by four pods or to double, whichever is more, every 15 seconds.
		defaultScaling(&b.ScaleUp, new(int32), []autoscalingv2.HPAScalingPolicy{
			{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
			{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
		})
		// Scale down to the minimum at once, after a window that the controller chooses.
		defaultScaling(&b.ScaleDown, nil, []autoscalingv2.HPAScalingPolicy{
			{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
		})
	}
}

func defaultScaling(r **autoscalingv2.HPAScalingRules, window *int32, policies []autoscalingv2.HPAScalingPolicy) {
	rules.DefaultPtr(r, autoscalingv2.HPAScalingRules{})
	rules.DefaultPtr(&(*r).SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if (*r).StabilizationWindowSeconds == nil {
		(*r).StabilizationWindowSeconds = window
	}
	if (*r).Policies == nil {
		(*r).Policies = policies
	}
}

func cpuUtilization(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		},
	}
}
