package rules

import (
	"cmp"
	"reflect"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// OwnSelector validates the selector of a kind that creates pods: it must be set and must not
// select everything. Messages name the kind as of.
func (e Errors) OwnSelector(s *metav1.LabelSelector, of string) {
	if s == nil {
		e.Field("selector").Required("")
		return
	}
	e.LabelSelector("selector", s, false)
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		e.Field("selector").Invalid(s, "empty selector is invalid for "+of)
	}
}

// SelectsTemplate checks that a selector selects the pods of a template. It reports whether the selector itself is
// valid.
func (e Errors) SelectsTemplate(s *metav1.LabelSelector, t *corev1.PodTemplateSpec) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		e.Field("selector").Invalid(s, "invalid label selector")
		return false
	}
	if !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		e.Field("template").Field("metadata").Field("labels").Invalid(t.Labels, "`selector` does not match template `labels`")
	}
	return true
}

// RunsForEver checks that the pods of a template always restart and have no deadline.
func (e Errors) RunsForEver(t *corev1.PodTemplateSpec) {
	spec := e.Field("template").Field("spec")
	OneOf(spec, "restartPolicy", t.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways})
	if t.Spec.ActiveDeadlineSeconds != nil {
		spec.Field("activeDeadlineSeconds").Forbidden("not supported: these pods run until they are deleted")
	}
}

// IntOrPercent validates a number or percentage of pods.
func (e Errors) IntOrPercent(name string, v intstr.IntOrString) {
	switch v.Type {
	case intstr.String:
		if m := validation.IsValidPercent(v.StrVal); len(m) > 0 {
			e.Field(name).Messages(v, m)
		}
	case intstr.Int:
		e.Nonnegative(name, int64(v.IntVal))
	default:
		e.Field(name).Invalid(v, "must be an integer or percentage (e.g '5%')")
	}
}

// AtMostAll reports a percentage of more than 100.
func (e Errors) AtMostAll(name string, v intstr.IntOrString) {
	if n, ok := percent(v); ok && n > 100 {
		e.Field(name).Invalid(v, "must not be greater than 100%")
	}
}

// Share returns the number in a number or percentage.
func Share(v intstr.IntOrString) int {
	if n, ok := percent(v); ok {
		return n
	}
	return v.IntValue()
}

func percent(v intstr.IntOrString) (int, bool) {
	if v.Type != intstr.String || len(validation.IsValidPercent(v.StrVal)) > 0 {
		return 0, false
	}
	n, _ := strconv.Atoi(v.StrVal[:len(v.StrVal)-1])
	return n, true
}

// NonnegativePtr is Nonnegative for a number that may be missing.
func NonnegativePtr[T int32 | int64](e Errors, name string, p *T) {
	if p != nil {
		e.Nonnegative(name, int64(*p))
	}
}

// AtMost reports a number in a field that is greater than another field's.
func AtMost[T cmp.Ordered](e Errors, name string, value, limit T, other string) {
	if value > limit {
		e.Field(name).Invalid(value, "cannot be greater than "+other)
	}
}

// NeverLess reports a counter that decreased. Nil is less than any number.
func NeverLess[T int32 | int64](e Errors, name string, p, old *T) {
	var value T
	if p != nil {
		value = *p
	}
	if old != nil && (p == nil || value < *old) {
		e.Field(name).Invalid(value, "cannot be decremented")
	}
}

// Fixed reports an immutable field that changed, without its value: so do rules that kube-apiserver generates from markers.
func (e Errors) Fixed(name string, value, old any) {
	if !reflect.DeepEqual(value, old) {
		e.Field(name).Invalid(nil, apimachineryvalidation.FieldImmutableErrorMsg)
	}
}

// Unchanged reports an immutable field that changed.
func (e Errors) Unchanged(name string, value, old any) {
	if !reflect.DeepEqual(value, old) {
		e.Add(Immutable(value, old, e.Path().Child(name)))
	}
}
