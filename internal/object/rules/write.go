package rules

import (
	"github.com/kanzen-io/kanzen/internal/object/equal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RaiseGeneration increments the generation if the spec, which two pointers point to, has changed.
func RaiseGeneration(m, old *metav1.ObjectMeta, spec, oldSpec any) {
	if !equal.Objects(spec, oldSpec) {
		m.Generation = old.Generation + 1
	}
}
