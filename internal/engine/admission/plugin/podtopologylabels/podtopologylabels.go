// Package podtopologylabels copies the zone and region labels of a node to the
// pods that are bound to it.
package podtopologylabels

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "PodTopologyLabels"

type plugin struct {
	objects admission.Objects
}

// New makes the plugin.
func New(objects admission.Objects, gates features.Set) admission.Plugin {
	if gates.Off(features.PodTopologyLabelsAdmission) {
		return admission.Plugin{Name: Name}
	}
	p := &plugin{objects}
	return admission.Plugin{
		Name: Name, Mutator: p,
		On: []admission.Operation{admission.Create}, Of: []schema.GroupResource{admission.Pods},
	}
}

// Admit labels a pod that is created on a node, and the binding of a pod to a
// node: the labels of a binding become the pod's.
func (p *plugin) Admit(ctx context.Context, a *admission.Attributes) error {
	switch a.Subresource {
	case "":
		pod, ok := a.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("expected a Pod and got a %T", a.Object)
		}
		return p.label(ctx, pod, pod.Spec.NodeName)
	case "binding":
		binding, ok := a.Object.(*corev1.Binding)
		if !ok {
			return fmt.Errorf("expected a Binding and got a %T", a.Object)
		}
		if binding.Target.Kind != "Node" {
			return nil
		}
		return p.label(ctx, binding, binding.Target.Name)
	}
	return nil
}

func (p *plugin) label(ctx context.Context, obj admission.Object, nodeName string) error {
	if nodeName == "" {
		return nil
	}
	node, err := admission.Seen[*corev1.Node](ctx, p.objects, admission.Nodes, "", nodeName)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	labels := obj.GetLabels()
	for _, key := range [...]string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if value, ok := node.Labels[key]; ok {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = value
		}
	}
	obj.SetLabels(labels)
	return nil
}
