package autoscaling

import (
	"context"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

const (
	maxPeriod = 1800 // seconds
	maxWindow = 3600
)

// options relax rules for stored autoscalers.
type options struct {
	allowZero   bool // replicas
	target      referenceOptions
	metricOwner referenceOptions
}

// referenceOptions say which apiVersions a reference may have.
type referenceOptions struct {
	anything bool
	noGroup  bool
}

func (d Deps) validate(_ context.Context, a *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&a.ObjectMeta, true, rules.Subdomain))
	spec(&a.Spec, e, d.optionsFor(a))
	return e.List()
}

func (d Deps) validateUpdate(_ context.Context, a, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	o := d.optionsFor(a)
	o.allowZero = o.allowZero || old.Spec.MinReplicas != nil && *old.Spec.MinReplicas == 0
	target, was := a.Spec.ScaleTargetRef, old.Spec.ScaleTargetRef
	if target.APIVersion == was.APIVersion && target.Kind == was.Kind {
		o.target.anything = true
	}
	for i := range old.Spec.Metrics {
		m := &old.Spec.Metrics[i]
		if m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil &&
			checkAPIVersion(m.Object.DescribedObject.APIVersion, o.metricOwner) != "" {
			o.metricOwner.anything = true
		}
	}
	e := rules.At(specPath)
	e.Add(rules.ObjectMetaUpdate(&a.ObjectMeta, &old.ObjectMeta))
	spec(&a.Spec, e, o)
	return e.List()
}

func (d Deps) optionsFor(a *autoscalingv2.HorizontalPodAutoscaler) options {
	return options{
		allowZero: d.Gates.Enabled(features.HPAScaleToZero),
		// Of the scalable kinds, only replication controllers have no group.
		target:      referenceOptions{noGroup: a.Spec.ScaleTargetRef.Kind == "ReplicationController"},
		metricOwner: referenceOptions{noGroup: true},
	}
}

func validateStatus(_ context.Context, a, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	e := rules.At(statusPath)
	e.Add(rules.ObjectMetaUpdate(&a.ObjectMeta, &old.ObjectMeta))
	e.Nonnegative("currentReplicas", int64(a.Status.CurrentReplicas))
	e.Nonnegative("desiredReplicas", int64(a.Status.DesiredReplicas))
	for i, c := range a.Status.Conditions {
		if c.ObservedGeneration != nil {
			e.Field("conditions").Item(i).Nonnegative("observedGeneration", *c.ObservedGeneration)
		}
	}
	return e.List()
}

func spec(s *autoscalingv2.HorizontalPodAutoscalerSpec, e rules.Errors, o options) {
	if m := s.MinReplicas; m != nil && (*m < 0 || *m == 0 && !o.allowZero) {
		e.Field("minReplicas").Invalid(*m, "must be greater than or equal to 1")
	}
	switch highest := e.Field("maxReplicas"); {
	case s.MaxReplicas == 0:
		highest.Required("")
	case s.MaxReplicas < 0:
		highest.Invalid(s.MaxReplicas, "must be greater than or equal to 1")
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		e.Field("maxReplicas").Invalid(s.MaxReplicas, "must be greater than or equal to `minReplicas`")
	}
	reference(s.ScaleTargetRef, e.Field("scaleTargetRef"), o.target)
	fromZero := false
	for i := range s.Metrics {
		metric(&s.Metrics[i], e.Field("metrics").Item(i), o.metricOwner)
		t := s.Metrics[i].Type
		fromZero = fromZero || t == autoscalingv2.ObjectMetricSourceType || t == autoscalingv2.ExternalMetricSourceType
	}
	if s.MinReplicas != nil && *s.MinReplicas == 0 && !fromZero {
		e.Field("metrics").Forbidden("must specify at least one Object or External metric to support scaling to zero replicas")
	}
	if b := s.Behavior; b != nil {
		scalingRules(b.ScaleUp, e.Field("behavior").Field("scaleUp"))
		scalingRules(b.ScaleDown, e.Field("behavior").Field("scaleDown"))
	}
}

func reference(r autoscalingv2.CrossVersionObjectReference, e rules.Errors, o referenceOptions) {
	e.PathSegment("kind", r.Kind)
	e.PathSegment("name", r.Name)
	if why := checkAPIVersion(r.APIVersion, o); why != "" {
		e.Field("apiVersion").Invalid(r.APIVersion, why)
	}
}

// checkAPIVersion returns the error in the apiVersion of a reference.
func checkAPIVersion(v string, o referenceOptions) string {
	if o.anything {
		return ""
	}
	gv, err := schema.ParseGroupVersion(v)
	switch {
	case err != nil:
		return err.Error()
	case gv.Group == "" && !o.noGroup:
		return "apiVersion must specify API group"
	}
	return ""
}

func scalingRules(r *autoscalingv2.HPAScalingRules, e rules.Errors) {
	if r == nil {
		return
	}
	if w := r.StabilizationWindowSeconds; w != nil {
		switch window := e.Field("stabilizationWindowSeconds"); {
		case *w < 0:
			window.Invalid(*w, "must be greater than or equal to zero")
		case *w > maxWindow:
			window.Invalid(*w, fmt.Sprintf("must be less than or equal to %d", maxWindow))
		}
	}
	if p := r.SelectPolicy; p != nil {
		rules.OneOf(e, "selectPolicy", *p, []autoscalingv2.ScalingPolicySelect{
			autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect,
		})
	}
	if len(r.Policies) == 0 {
		e.Field("policies").Required("must specify at least one Policy")
	}
	for i, p := range r.Policies {
		at := e.Field("policies").Item(i)
		rules.OneOf(at, "type", p.Type, []autoscalingv2.HPAScalingPolicyType{
			autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy,
		})
		at.Positive("value", int64(p.Value))
		at.Positive("periodSeconds", int64(p.PeriodSeconds))
		if p.PeriodSeconds > maxPeriod {
			at.Field("periodSeconds").Invalid(p.PeriodSeconds, fmt.Sprintf("must be less than or equal to %d", maxPeriod))
		}
	}
	if t := r.Tolerance; t != nil && t.Sign() < 0 {
		e.Field("tolerance").Invalid(t.String(), "must be greater than or equal to 0")
	}
}

var sourceTypes = []autoscalingv2.MetricSourceType{
	autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
	autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType,
}

// metric checks that a metric has the source that its type names, and no other. Only the first source is validated
// itself.
func metric(m *autoscalingv2.MetricSpec, e rules.Errors, o referenceOptions) {
	if m.Type == "" {
		e.Field("type").Required("must specify a metric source type")
	}
	rules.OneOf(e, "type", m.Type, sourceTypes)
	sources := []struct {
		t     autoscalingv2.MetricSourceType
		name  string
		is    bool
		check func(e rules.Errors)
	}{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(e rules.Errors) {
			objectSource(m.Object, e, o)
		}},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(e rules.Errors) {
			externalSource(m.External, e)
		}},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(e rules.Errors) {
			podsSource(m.Pods, e)
		}},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(e rules.Errors) {
			if m.Resource.Name == "" {
				e.Field("name").Required("must specify a resource name")
			}
			resourceTargetOf(&m.Resource.Target, e.Field("target"))
		}},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(e rules.Errors) {
			containerSource(m.ContainerResource, e)
		}},
	}
	n := 0
	for _, s := range sources {
		if !s.is {
			if s.t == m.Type {
				e.Field(s.name).Required("must populate information for the given metric source")
			}
			continue
		}
		if n++; n == 1 {
			s.check(e.Field(s.name))
		}
	}
	for _, s := range sources {
		if n > 1 && s.is && s.t != m.Type {
			e.Field(s.name).Forbidden("must populate the given metric source only")
		}
	}
}

func objectSource(s *autoscalingv2.ObjectMetricSource, e rules.Errors, o referenceOptions) {
	reference(s.DescribedObject, e.Field("describedObject"), o)
	metricName(s.Metric.Name, e.Field("metric"))
	target(&s.Target, e.Field("target"))
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		e.Field("target").Field("averageValue").Required("must set either a target value or averageValue")
	}
}

func externalSource(s *autoscalingv2.ExternalMetricSource, e rules.Errors) {
	metricName(s.Metric.Name, e.Field("metric"))
	target(&s.Target, e.Field("target"))
	switch {
	case s.Target.Value == nil && s.Target.AverageValue == nil:
		e.Field("target").Field("averageValue").Required("must set either a target value for metric or a per-pod target")
	case s.Target.Value != nil && s.Target.AverageValue != nil:
		e.Field("target").Field("value").Forbidden("may not set both a target value for metric and a per-pod target")
	}
}

func podsSource(s *autoscalingv2.PodsMetricSource, e rules.Errors) {
	metricName(s.Metric.Name, e.Field("metric"))
	target(&s.Target, e.Field("target"))
	if s.Target.AverageValue == nil {
		e.Field("target").Field("averageValue").Required("must specify a positive target averageValue")
	}
}

func metricName(name string, e rules.Errors) {
	if name == "" {
		e.Field("name").Required("must specify a metric name")
		return
	}
	e.PathSegment("name", name)
}

func containerSource(s *autoscalingv2.ContainerResourceMetricSource, e rules.Errors) {
	if s.Name == "" {
		e.Field("name").Required("must specify a resource name")
	} else {
		e.Field("name").ContainerResourceName(s.Name)
	}
	if s.Container == "" {
		e.Field("container").Required("must specify a container")
	} else {
		e.DNSLabel("container", s.Container)
	}
	resourceTargetOf(&s.Target, e.Field("target"))
}

func resourceTargetOf(t *autoscalingv2.MetricTarget, e rules.Errors) {
	target(t, e)
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		e.Field("averageUtilization").Required("must set either a target raw value or a target utilization")
	case t.AverageUtilization != nil && t.AverageValue != nil:
		e.Field("averageValue").Forbidden("may not set both a target raw value and a target utilization")
	}
}

func target(t *autoscalingv2.MetricTarget, e rules.Errors) {
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		if t.Type == "" {
			e.Field("type").Required("must specify a metric target type")
		}
		e.Field("type").Invalid(t.Type, "must be either Utilization, Value, or AverageValue")
	}
	positive := func(name string, q *resource.Quantity) {
		if q != nil && q.Sign() != 1 {
			e.Field(name).Invalid(q.String(), "must be positive")
		}
	}
	positive("value", t.Value)
	positive("averageValue", t.AverageValue)
	if u := t.AverageUtilization; u != nil && *u < 1 {
		e.Field("averageUtilization").Invalid(*u, "must be greater than 0")
	}
}
