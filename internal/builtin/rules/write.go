package rules

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// The fields that one way of writing leaves alone. Most kinds with a status
// let their own path change everything else, and the status subresource
// nothing else; the newer ones keep metadata out of it too.
var (
	ResetStatus          = engine.ResetFields([]string{"status"})
	ResetSpec            = engine.ResetFields([]string{"spec"})
	ResetSpecAndMetadata = engine.ResetFields([]string{"metadata"}, []string{"spec"})
)

// RaiseGeneration counts a change of what the user asked for.
func RaiseGeneration(m, old *metav1.ObjectMeta, spec, oldSpec any) {
	if !apiequality.Semantic.DeepEqual(spec, oldSpec) {
		m.Generation = old.Generation + 1
	}
}
