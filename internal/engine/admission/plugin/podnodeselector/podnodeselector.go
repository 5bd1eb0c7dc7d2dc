// Package podnodeselector merges the node selector of pods with the one in an
// annotation of their namespace.
package podnodeselector

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
)

// Name of the plugin in --enable-admission-plugins.
const Name = "PodNodeSelector"

const (
	annotation = "scheduler.alpha.kubernetes.io/node-selector"
	// clusterDefault is the configuration's entry for namespaces without the
	// annotation; its other entries say which labels pods of a namespace may
	// select.
	clusterDefault = "clusterDefaultNodeSelector"
)

type plugin struct {
	objects   admission.Objects
	selectors map[string]string
}

// New makes the plugin. configuration is YAML or JSON, or empty.
func New(objects admission.Objects, configuration []byte) (admission.Plugin, error) {
	var c struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if err := yaml.Unmarshal(configuration, &c); err != nil {
		return admission.Plugin{}, fmt.Errorf("configuration of %s: %w", Name, err)
	}
	p := &plugin{objects, c.Selectors}
	return admission.Plugin{
		Name: Name, Mutator: p, Validator: p,
		On: []admission.Operation{admission.Create}, Of: []schema.GroupResource{admission.Pods},
	}, nil
}

func (p *plugin) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || a.Subresource != "" {
		return nil
	}
	wanted, err := p.selectorOf(ctx, a, pod)
	if err != nil {
		return err
	}
	pod.Spec.NodeSelector = labels.Merge(wanted, pod.Spec.NodeSelector)
	return p.Validate(ctx, a)
}

func (p *plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || a.Subresource != "" {
		return nil
	}
	if _, err := p.selectorOf(ctx, a, pod); err != nil {
		return err
	}
	allowed, err := labels.ConvertSelectorToLabelsMap(p.selectors[a.Namespace])
	if err != nil {
		return err
	}
	if len(allowed) == 0 {
		return nil
	}
	for key, value := range pod.Spec.NodeSelector {
		if v, ok := allowed[key]; !ok || v != value {
			return admission.Forbiddenf(a, "pod node label selector labels conflict with its namespace whitelist")
		}
	}
	return nil
}

// selectorOf returns the selector of the pod's namespace. The pod's own must
// not conflict with it.
func (p *plugin) selectorOf(ctx context.Context, a *admission.Attributes, pod *corev1.Pod) (labels.Set, error) {
	ns, err := admission.Seen[*corev1.Namespace](ctx, p.objects, admission.Namespaces, "", a.Namespace)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("look up namespace %s: %w", a.Namespace, err))
	}
	text, ok := ns.Annotations[annotation]
	if !ok {
		text = p.selectors[clusterDefault]
	}
	selector, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil, err
	}
	if labels.Conflicts(selector, pod.Spec.NodeSelector) {
		return nil, admission.Forbiddenf(a, "pod node label selector conflicts with its namespace node label selector")
	}
	return selector, nil
}
