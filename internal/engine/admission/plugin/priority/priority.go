// Package priority resolves the priority class of pods and their groups, and keeps the default
// class unique.
package priority

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "Priority"

type plugin struct {
	objects admission.Objects
	gates   features.Set
}

// New makes the plugin.
func New(objects admission.Objects, gates features.Set) admission.Plugin {
	p := &plugin{objects, gates}
	return admission.Plugin{
		Name: Name, Mutator: p, Validator: p,
		On: []admission.Operation{admission.Create, admission.Update},
		Of: []schema.GroupResource{admission.Pods, admission.PodGroups, admission.CompositePodGroups, admission.PriorityClasses},
	}
}

// Admit gives a new pod or group of pods the priority of its class.
func (p *plugin) Admit(ctx context.Context, a *admission.Attributes) error {
	if a.Subresource != "" {
		return nil
	}
	switch a.Resource.Resource {
	case admission.Pods.Resource:
		return p.admitPod(ctx, a)
	case admission.PodGroups.Resource, admission.CompositePodGroups.Resource:
		return p.admitGroup(ctx, a)
	}
	return nil
}

// admitPod resolves the priority of a new pod. An update without a priority keeps the pod's.
func (p *plugin) admitPod(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok {
		return admission.WrongType(a)
	}
	if a.Operation == admission.Create {
		return p.resolve(ctx, a, pod)
	}
	old, ok := a.OldObject.(*corev1.Pod)
	if !ok {
		return admission.WrongType(a)
	}
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = old.Spec.Priority
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
	}
	return nil
}

func (p *plugin) resolve(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) error {
	class, err := p.classOf(ctx, a, pod.Spec.PriorityClassName)
	if err != nil {
		return err
	}
	value, policy := class.Value, class.PreemptionPolicy
	pod.Spec.PriorityClassName = class.Name
	if have := pod.Spec.Priority; have != nil && *have != value {
		return admission.Forbiddenf(a, "the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *have, value)
	}
	pod.Spec.Priority = &value
	if policy == nil {
		return nil
	}
	if have := pod.Spec.PreemptionPolicy; have != nil && *have != *policy {
		return admission.Forbiddenf(a, "the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *have, *policy)
	}
	both := *policy
	pod.Spec.PreemptionPolicy = &both
	return nil
}

// classOf returns the class of a name; without a name the default class, and
// if there is none a nameless class of priority 0.
func (p *plugin) classOf(ctx context.Context, a *admission.Attributes, name string) (*schedulingv1.PriorityClass, error) {
	if name == "" {
		class, err := p.defaultClass(ctx)
		if err != nil {
			return nil, fmt.Errorf("find the default priority class: %w", err)
		}
		if class == nil {
			preempt := corev1.PreemptLowerPriority
			class = &schedulingv1.PriorityClass{PreemptionPolicy: &preempt}
		}
		return class, nil
	}
	class, err := admission.Seen[*schedulingv1.PriorityClass](ctx, p.objects, admission.PriorityClasses, "", name)
	if apierrors.IsNotFound(err) {
		return nil, admission.Forbiddenf(a, "no PriorityClass with name %v was found", name)
	}
	return class, err
}

// defaultClass returns the default class, or nil. If concurrent writers have
// created two of them, the lower one counts.
func (p *plugin) defaultClass(ctx context.Context) (*schedulingv1.PriorityClass, error) {
	classes, err := admission.SeenList[*schedulingv1.PriorityClass](ctx, p.objects, admission.PriorityClasses, "")
	if err != nil {
		return nil, err
	}
	var found *schedulingv1.PriorityClass
	for _, c := range classes {
		if c.GlobalDefault && (found == nil || c.Value < found.Value) {
			found = c
		}
	}
	return found, nil
}

// Validate refuses a second default class.
func (p *plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	if a.Subresource != "" || a.Resource.Resource != admission.PriorityClasses.Resource {
		return nil
	}
	class, ok := a.Object.(*schedulingv1.PriorityClass)
	if !ok {
		return admission.WrongType(a)
	}
	if !class.GlobalDefault {
		return nil
	}
	have, err := p.defaultClass(ctx)
	if err != nil {
		return fmt.Errorf("find the default priority class: %w", err)
	}
	if have != nil && (a.Operation == admission.Create || have.Name != class.Name) {
		return admission.Forbiddenf(a, "PriorityClass %v is already marked as default. Only one default can exist", have.Name)
	}
	return nil
}
