package autoscaling

import (
	"fmt"
	"strconv"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func horizontalPodAutoscalerTable() *engine.Table {
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc()
	return engine.TableOf(horizontalPodAutoscalerRow,
		cells.Name(),
		cells.String("Reference", spec["scaleTargetRef"]),
		cells.String("Targets", spec["metrics"]),
		cells.String("MinPods", spec["minReplicas"]),
		cells.String("MaxPods", spec["maxReplicas"]),
		cells.String("Replicas", autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()["currentReplicas"]),
		cells.Age(),
	)
}

func horizontalPodAutoscalerRow(h *autoscalingv2.HorizontalPodAutoscaler) []any {
	minPods := cells.Unset
	if p := h.Spec.MinReplicas; p != nil {
		minPods = strconv.Itoa(int(*p))
	}
	return []any{
		h.Name, h.Spec.ScaleTargetRef.Kind + "/" + h.Spec.ScaleTargetRef.Name, targets(h), minPods,
		int64(h.Spec.MaxReplicas), int64(h.Status.CurrentReplicas), cells.Since(h.CreationTimestamp),
	}
}

// targets returns the first metrics as current/target. A metric and its status have the same list index.
func targets(h *autoscalingv2.HorizontalPodAutoscaler) string {
	if len(h.Spec.Metrics) == 0 {
		return cells.None
	}
	texts := make([]string, len(h.Spec.Metrics))
	for i := range h.Spec.Metrics {
		var status autoscalingv2.MetricStatus
		if i < len(h.Status.CurrentMetrics) {
			status = h.Status.CurrentMetrics[i]
		}
		texts[i] = metricText(&h.Spec.Metrics[i], &status)
	}
	return cells.First(2, texts, ", ")
}

func metricText(spec *autoscalingv2.MetricSpec, status *autoscalingv2.MetricStatus) string {
	switch spec.Type {
	case autoscalingv2.ExternalMetricSourceType:
		var current *autoscalingv2.MetricValueStatus
		if status.External != nil {
			current = &status.External.Current
		}
		return valueText(&spec.External.Target, current)
	case autoscalingv2.ObjectMetricSourceType:
		var current *autoscalingv2.MetricValueStatus
		if status.Object != nil {
			current = &status.Object.Current
		}
		return valueText(&spec.Object.Target, current)
	case autoscalingv2.PodsMetricSourceType:
		current := cells.Unknown
		if status.Pods != nil {
			current = status.Pods.Current.AverageValue.String()
		}
		return current + "/" + spec.Pods.Target.AverageValue.String()
	case autoscalingv2.ResourceMetricSourceType:
		var current *autoscalingv2.MetricValueStatus
		if status.Resource != nil {
			current = &status.Resource.Current
		}
		return string(spec.Resource.Name) + ": " + resourceText(&spec.Resource.Target, current)
	case autoscalingv2.ContainerResourceMetricSourceType:
		var current *autoscalingv2.MetricValueStatus
		if status.ContainerResource != nil {
			current = &status.ContainerResource.Current
		}
		return string(spec.ContainerResource.Name) + ": " + resourceText(&spec.ContainerResource.Target, current)
	}
	return "<unknown type>"
}

// valueText returns the text of a metric with a target value, or an average value per pod.
func valueText(target *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	now := cells.Unknown
	if target.AverageValue == nil {
		if current != nil {
			now = current.Value.String()
		}
		return now + "/" + target.Value.String()
	}
	if current != nil && current.AverageValue != nil {
		now = current.AverageValue.String()
	}
	return fmt.Sprintf("%s/%s (avg)", now, target.AverageValue.String())
}

// resourceText returns the text of a CPU or memory metric, as an amount or as a percentage of the requests.
func resourceText(target *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	now := cells.Unknown
	if target.AverageValue != nil {
		if current != nil {
			now = current.AverageValue.String()
		}
		return now + "/" + target.AverageValue.String()
	}
	if current != nil && current.AverageUtilization != nil {
		now = fmt.Sprintf("%d%%", *current.AverageUtilization)
	}
	want := "<auto>"
	if target.AverageUtilization != nil {
		want = fmt.Sprintf("%d%%", *target.AverageUtilization)
	}
	return now + "/" + want
}
