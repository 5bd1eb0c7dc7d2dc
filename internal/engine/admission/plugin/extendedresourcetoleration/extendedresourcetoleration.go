// Package extendedresourcetoleration adds tolerations to pods that request an
// extended resource, so that they can run on the nodes reserved for it.
package extendedresourcetoleration

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "ExtendedResourceToleration"

// New makes the plugin.
func New() admission.Plugin {
	return admission.Plugin{
		Name: Name, Mutator: admission.Func(admit),
		On: []admission.Operation{admission.Create, admission.Update}, Of: []schema.GroupResource{admission.Pods},
	}
}

func admit(_ context.Context, a *admission.Attributes) error {
	if a.Subresource != "" {
		return nil
	}
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return admission.WrongType(a)
	}
	names := sets.New[string]()
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for name := range c.Resources.Requests {
			if rules.IsExtended(name) {
				names.Insert(string(name))
			}
		}
	}
	for _, name := range sets.List(names) {
		tolerate(pod, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	return nil
}

// tolerate adds a toleration, and replaces an equivalent one.
func tolerate(pod *corev1.Pod, t corev1.Toleration) {
	list := slices.Clone(pod.Spec.Tolerations)
	found := false
	for i := range list {
		if t.MatchToleration(&list[i]) {
			list[i], found = t, true
		}
	}
	if !found {
		list = append(list, t)
	}
	pod.Spec.Tolerations = list
}
