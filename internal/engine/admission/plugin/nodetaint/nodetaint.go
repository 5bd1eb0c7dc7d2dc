// Package nodetaint adds the not-ready taint to new nodes, so that no pod is
// scheduled to a node before it is known to work.
package nodetaint

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "TaintNodesByCondition"

// New makes the plugin.
func New() admission.Plugin {
	return admission.Plugin{
		Name: Name, Mutator: admission.Func(admit),
		On: []admission.Operation{admission.Create}, Of: []schema.GroupResource{admission.Nodes},
	}
}

func admit(_ context.Context, a *admission.Attributes) error {
	if a.Subresource != "" {
		return nil
	}
	node, ok := a.Object.(*corev1.Node)
	if !ok {
		return admission.Forbiddenf(a, "unexpected type %T", a.Object)
	}
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&notReady) }) {
		node.Spec.Taints = append(node.Spec.Taints, notReady)
	}
	return nil
}
