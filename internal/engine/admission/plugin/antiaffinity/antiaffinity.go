// Package antiaffinity lets pods keep others off their own node only, not off
// a whole zone.
package antiaffinity

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "LimitPodHardAntiAffinityTopology"

// New makes the plugin.
func New() admission.Plugin {
	return admission.Plugin{
		Name: Name, Validator: admission.Func(validate),
		On: []admission.Operation{admission.Create, admission.Update}, Of: []schema.GroupResource{admission.Pods},
	}
}

func validate(_ context.Context, a *admission.Attributes) error {
	if a.Subresource != "" {
		return nil
	}
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return admission.WrongType(a)
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	for _, t := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if t.TopologyKey != corev1.LabelHostname {
			return admission.Forbiddenf(a, "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey %v but only key %v is allowed", t.TopologyKey, corev1.LabelHostname)
		}
	}
	return nil
}
