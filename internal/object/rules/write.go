package rules

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/equal"
)

// RaiseGeneration increments the generation if the spec, which two pointers point to, has changed.
func RaiseGeneration(m, old *metav1.ObjectMeta, spec, oldSpec any) {
	if !equal.Objects(spec, oldSpec) {
		m.Generation = old.Generation + 1
	}
}
