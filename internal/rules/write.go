package rules

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RaiseGeneration counts a change of what the user asked for.
func RaiseGeneration(m, old *metav1.ObjectMeta, spec, oldSpec any) {
	if !apiequality.Semantic.DeepEqual(spec, oldSpec) {
		m.Generation = old.Generation + 1
	}
}
