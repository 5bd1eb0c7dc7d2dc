package rules

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RaiseGeneration increments the generation if the spec has changed.
func RaiseGeneration(m, old *metav1.ObjectMeta, spec, oldSpec any) {
	if !apiequality.Semantic.DeepEqual(spec, oldSpec) {
		m.Generation = old.Generation + 1
	}
}
