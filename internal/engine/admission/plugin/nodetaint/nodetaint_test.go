package nodetaint

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	at "github.com/kanzen-io/kanzen/internal/engine/admission/admissiontest"
)

func TestTaint(t *testing.T) {
	node := &corev1.Node{}
	for range 2 { // the second time it is there
		at.Check(t, at.Run(New(), at.Create(admission.Nodes, node)), "")
		if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady {
			t.Errorf("got %v", node.Spec.Taints)
		}
	}
}
