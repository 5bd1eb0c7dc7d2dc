package always

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestAlways(t *testing.T) {
	a := at.Create(admission.Pods, &corev1.Pod{})
	at.Check(t, at.Run(Admit(), a), "")
	at.Check(t, at.Run(Deny(), a), "denying all modifications")
}
