// Package runtimeclass gives pods the overhead and the scheduling rules of
// their runtime class.
package runtimeclass

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/tolerations"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "RuntimeClass"

type plugin struct {
	objects admission.Objects
}

// New makes the plugin.
func New(objects admission.Objects) admission.Plugin {
	p := &plugin{objects}
	return admission.Plugin{
		Name: Name, Mutator: p, Validator: p,
		On: []admission.Operation{admission.Create}, Of: []schema.GroupResource{admission.Pods},
	}
}

func (p *plugin) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, class, err := p.podAndClass(ctx, a)
	if err != nil || class == nil {
		return err
	}
	if o := class.Overhead; o != nil {
		if len(pod.Spec.Overhead) > 0 && !apiequality.Semantic.DeepEqual(o.PodFixed, pod.Spec.Overhead) {
			return errOverhead(a)
		}
		pod.Spec.Overhead = o.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return nil
	}
	selector := maps.Clone(pod.Spec.NodeSelector)
	if selector == nil {
		selector = maps.Clone(class.Scheduling.NodeSelector)
	}
	for key, value := range class.Scheduling.NodeSelector {
		if have, ok := selector[key]; ok && have != value {
			return admission.Forbiddenf(a, "conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, have)
		}
		selector[key] = value
	}
	pod.Spec.NodeSelector = selector
	pod.Spec.Tolerations = tolerations.Merge(pod.Spec.Tolerations, class.DeepCopy().Scheduling.Tolerations)
	return nil
}

func (p *plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, class, err := p.podAndClass(ctx, a)
	if err != nil || pod == nil {
		return err
	}
	if class == nil || class.Overhead == nil {
		if pod.Spec.Overhead != nil {
			return admission.Forbiddenf(a, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
		}
		return nil
	}
	if !apiequality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
		return errOverhead(a)
	}
	return nil
}

func errOverhead(a *admission.Attributes) error {
	return admission.Forbiddenf(a, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
}

// podAndClass returns the pod (nil: the write is not of a pod itself) and its
// runtime class, if it names one.
func (p *plugin) podAndClass(ctx context.Context, a *admission.Attributes) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	if a.Subresource != "" {
		return nil, nil, nil
	}
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return nil, nil, admission.WrongType(a)
	}
	if pod.Spec.RuntimeClassName == nil {
		return pod, nil, nil
	}
	name := *pod.Spec.RuntimeClassName
	class, err := admission.Seen[*nodev1.RuntimeClass](ctx, p.objects, admission.RuntimeClasses, "", name)
	if apierrors.IsNotFound(err) {
		err = admission.Forbiddenf(a, "pod rejected: RuntimeClass %q not found", name)
	}
	return pod, class, err
}
