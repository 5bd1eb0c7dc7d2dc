package controllers

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A controller that looks again before it has seen its own write, or another server's, adds the finalizer once.
func TestFinalizerIsAddedOnce(t *testing.T) {
	p := &protector[*corev1.PersistentVolume]{finalizer: "protected"}
	for _, have := range [][]string{{"other"}, {"other", "protected"}} {
		if got := p.with(slices.Clone(have)); !slices.Equal(got, []string{"other", "protected"}) {
			t.Errorf("%q with the finalizer: %q", have, got)
		}
	}
}
