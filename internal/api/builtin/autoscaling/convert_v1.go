package autoscaling

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// v1 has a field for one metric, the CPU. These annotations contain the other metrics, and everything else that v2
// added, as JSON.
const (
	metricsAnnotation        = "autoscaling.alpha.kubernetes.io/metrics"
	currentMetricsAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation     = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation       = "autoscaling.alpha.kubernetes.io/behavior"
)

// v1Annotations are never stored. The last two are reserved and have no meaning.
var v1Annotations = []string{
	metricsAnnotation, currentMetricsAnnotation, conditionsAnnotation, behaviorAnnotation,
	"autoscaling.alpha.kubernetes.io/scale-down-tolerance", "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
}

// dropV1Annotations removes v1's annotations from stored objects.
func dropV1Annotations(_ context.Context, obj engine.Object) (engine.Object, error) {
	obj.SetAnnotations(withoutV1(obj.GetAnnotations()))
	return obj, nil
}

func withoutV1(a map[string]string) map[string]string {
	cloned := false
	for _, key := range v1Annotations {
		if _, found := a[key]; !found {
			continue
		}
		if !cloned {
			a, cloned = maps.Clone(a), true
		}
		delete(a, key)
	}
	return a
}

// isCPU reports whether v1 has a field for a metric.
func isCPU(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil &&
		m.Resource.Name == corev1.ResourceCPU && m.Resource.Target.AverageUtilization != nil
}

func toV1(_ context.Context, obj engine.Object) (engine.Object, error) {
	in, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil, fmt.Errorf("not a v2 autoscaler: %T", obj)
	}
	out := &autoscalingv1.HorizontalPodAutoscaler{
		TypeMeta:   in.TypeMeta,
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	var others []autoscalingv1.MetricSpec
	for i := range in.Spec.Metrics {
		m := &in.Spec.Metrics[i]
		if !isCPU(m) {
			others = append(others, metricToV1(m))
		} else if out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
		}
	}
	var current []autoscalingv1.MetricStatus
	for i := range in.Status.CurrentMetrics {
		m := &in.Status.CurrentMetrics[i]
		current = append(current, currentToV1(m))
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil &&
			m.Resource.Name == corev1.ResourceCPU && m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	for _, c := range in.Status.Conditions {
		conditions = append(conditions, autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
		})
	}
	annotations := maps.Clone(withoutV1(in.Annotations))
	for _, a := range []struct {
		key   string
		value any
		set   bool
	}{
		{metricsAnnotation, others, len(others) > 0},
		{currentMetricsAnnotation, current, len(current) > 0},
		{behaviorAnnotation, (*behavior)(in.Spec.Behavior), in.Spec.Behavior != nil},
		{conditionsAnnotation, conditions, len(conditions) > 0},
	} {
		if !a.set {
			continue
		}
		text, err := json.Marshal(a.value)
		if err != nil {
			return nil, err
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[a.key] = string(text)
	}
	out.Annotations = annotations
	return out, nil
}

func fromV1(_ context.Context, obj engine.Object) (engine.Object, error) {
	in, ok := obj.(*autoscalingv1.HorizontalPodAutoscaler)
	if !ok {
		return nil, fmt.Errorf("not a v1 autoscaler: %T", obj)
	}
	out := &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   in.TypeMeta,
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	// An annotation that does not parse is ignored.
	var others []autoscalingv1.MetricSpec
	if annotation(in, metricsAnnotation, &others) {
		for i := range others {
			out.Spec.Metrics = append(out.Spec.Metrics, metricFromV1(&others[i]))
		}
	}
	if p := in.Spec.TargetCPUUtilizationPercentage; p != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuUtilization(*p))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{cpuUtilization(defaultCPUUtilization)}
	}
	var b behavior
	if annotation(in, behaviorAnnotation, &b) && b != (behavior{}) {
		out.Spec.Behavior = (*autoscalingv2.HorizontalPodAutoscalerBehavior)(&b)
	}
	if p := in.Status.CurrentCPUUtilizationPercentage; p != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: p},
			},
		}}
	}
	var current []autoscalingv1.MetricStatus
	if annotation(in, currentMetricsAnnotation, &current) {
		out.Status.CurrentMetrics = nil
		for i := range current {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, currentFromV1(&current[i]))
		}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	if annotation(in, conditionsAnnotation, &conditions) {
		for _, c := range conditions {
			out.Status.Conditions = append(out.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
				Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
				LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
			})
		}
	}
	out.Annotations = withoutV1(in.Annotations)
	return out, nil
}

func annotation(a *autoscalingv1.HorizontalPodAutoscaler, key string, into any) bool {
	text, found := a.Annotations[key]
	return found && json.Unmarshal([]byte(text), into) == nil
}

// behavior is written to the annotation with Go's field names, as it has always been. Decoding ignores case.
type behavior autoscalingv2.HorizontalPodAutoscalerBehavior

type annotatedRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []annotatedPolicy
	Tolerance                  *resource.Quantity
}

type annotatedPolicy struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

// MarshalJSON implements json.Marshaler.
func (b *behavior) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct{ ScaleUp, ScaleDown *annotatedRules }{annotated(b.ScaleUp), annotated(b.ScaleDown)})
}

func annotated(r *autoscalingv2.HPAScalingRules) *annotatedRules {
	if r == nil {
		return nil
	}
	out := &annotatedRules{
		StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance,
	}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, annotatedPolicy(p))
	}
	return out
}
