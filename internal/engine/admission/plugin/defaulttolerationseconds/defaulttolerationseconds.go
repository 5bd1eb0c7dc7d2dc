// Package defaulttolerationseconds lets every pod stay for a while on a node
// that is not ready or cannot be reached.
package defaulttolerationseconds

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "DefaultTolerationSeconds"

// New makes the plugin. Pods without tolerations of their own stay for these
// numbers of seconds on nodes that are not ready or unreachable.
func New(notReady, unreachable int64) admission.Plugin {
	return admission.Plugin{
		Name: Name,
		On:   []admission.Operation{admission.Create, admission.Update}, Of: []schema.GroupResource{admission.Pods},
		Mutator: admission.Func(func(_ context.Context, a *admission.Attributes) error {
			if a.Subresource != "" {
				return nil
			}
			pod, ok := a.Object.(*corev1.Pod)
			if !ok {
				return admission.WrongType(a)
			}
			given := pod.Spec.Tolerations
			add(pod, given, corev1.TaintNodeNotReady, notReady)
			add(pod, given, corev1.TaintNodeUnreachable, unreachable)
			return nil
		}),
	}
}

// add adds a toleration of a taint unless one was given.
func add(pod *corev1.Pod, given []corev1.Toleration, taint string, seconds int64) {
	for _, t := range given {
		if (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
		Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
	})
}
