package crd

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

type (
	condition     = apiextensionsv1.CustomResourceDefinitionCondition
	conditionType = apiextensionsv1.CustomResourceDefinitionConditionType
)

func findCondition(d *apiextensionsv1.CustomResourceDefinition, t conditionType) *condition {
	for i := range d.Status.Conditions {
		if c := &d.Status.Conditions[i]; c.Type == t {
			return c
		}
	}
	return nil
}

func isTrue(d *apiextensionsv1.CustomResourceDefinition, t conditionType) bool {
	c := findCondition(d, t)
	return c != nil && c.Status == apiextensionsv1.ConditionTrue
}

// setCondition sets a condition and reports whether that changed anything. The transition time changes with the status.
func setCondition(d *apiextensionsv1.CustomResourceDefinition, c condition, clk clock.PassiveClock) bool {
	have := findCondition(d, c.Type)
	if have == nil {
		c.LastTransitionTime = metav1.NewTime(clk.Now())
		d.Status.Conditions = append(d.Status.Conditions, c)
		return true
	}
	if have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
		return false
	}
	if have.Status != c.Status {
		have.LastTransitionTime = metav1.NewTime(clk.Now())
	}
	have.Status, have.Reason, have.Message = c.Status, c.Reason, c.Message
	return true
}

func dropCondition(d *apiextensionsv1.CustomResourceDefinition, t conditionType) bool {
	for i, c := range d.Status.Conditions {
		if c.Type == t {
			d.Status.Conditions = append(d.Status.Conditions[:i:i], d.Status.Conditions[i+1:]...)
			return true
		}
	}
	return false
}
