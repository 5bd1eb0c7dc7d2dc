// Package podresize refuses changes to running pods that their node cannot
// carry out: a resize beyond its capacity, or one that it does not support.
package podresize

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine/admission"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin/podresources"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

// Names of the plugins in --enable-admission-plugins.
const (
	ResizeName   = "PodResizeValidator"
	FeaturesName = "NodeDeclaredFeatureValidator"
)

// Reasons why a node cannot resize a pod, as causes of the refusal.
const (
	causeCapacity metav1.CauseType = "NodeCapacity"
	causePlatform metav1.CauseType = "UnsupportedPlatform"
)

type plugin struct {
	objects admission.Objects
}

// Resize makes the plugin that refuses a resize beyond the node's capacity.
func Resize(objects admission.Objects) admission.Plugin {
	p := &plugin{objects}
	return validator(ResizeName, p.validateResize)
}

// Features makes the plugin that refuses updates that need a feature which the
// pod's node does not declare.
func Features(objects admission.Objects) admission.Plugin {
	p := &plugin{objects}
	return validator(FeaturesName, p.validateFeatures)
}

func validator(name string, f admission.Func) admission.Plugin {
	return admission.Plugin{
		Name: name, Validator: f,
		On: []admission.Operation{admission.Update}, Of: []schema.GroupResource{admission.Pods},
	}
}

// update returns the new and old pod of an update that changes the spec of a
// pod on a node; otherwise nil.
func update(a *admission.Attributes) (pod, old *corev1.Pod, err error) {
	pod, ok := a.Object.(*corev1.Pod)
	old, okOld := a.OldObject.(*corev1.Pod)
	switch {
	case !ok || !okOld:
		return nil, nil, admission.WrongType(a)
	case pod.Spec.NodeName == "" || pod.Generation == old.Generation:
		return nil, nil, nil
	}
	return pod, old, nil
}

func (p *plugin) node(ctx context.Context, a *admission.Attributes, name string) (*corev1.Node, error) {
	node, err := admission.Seen[*corev1.Node](ctx, p.objects, admission.Nodes, "", name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, admission.Forbiddenf(a, "node %q not found", name)
	case err != nil:
		return nil, admission.Forbiddenf(a, "look up node %q: %w", name, err)
	}
	return node, nil
}

func (p *plugin) validateResize(ctx context.Context, a *admission.Attributes) error {
	if a.Subresource != "resize" {
		return nil
	}
	pod, _, err := update(a)
	if err != nil || pod == nil {
		return err
	}
	node, err := p.node(ctx, a, pod.Spec.NodeName)
	if err != nil {
		return err
	}
	if os, ok := node.Labels[corev1.LabelOSStable]; ok && os != string(corev1.Linux) {
		return refuse(a, causePlatform, fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, os))
	}
	requests := podresources.Requests(pod, podresources.Options{})
	var over []string
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		want, have := requests[name], node.Status.Allocatable[name]
		if want.Cmp(have) > 0 {
			over = append(over, fmt.Sprintf("%s, requested: %s, allocatable: %s", name, want.String(), have.String()))
		}
	}
	if len(over) > 0 {
		return refuse(a, causeCapacity, fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(over, "; ")))
	}
	return nil
}

func refuse(a *admission.Attributes, cause metav1.CauseType, reason error) error {
	err := admission.Forbidden(a, reason)
	var st *apierrors.StatusError
	if errors.As(err, &st) {
		st.ErrStatus.Details.Causes = append(st.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	}
	return err
}

// needs are the node features that updates need.
var needs = []struct {
	feature string
	when    func(spec, old *corev1.PodSpec) bool
}{
	{"InPlacePodLevelResourcesVerticalScaling", func(spec, old *corev1.PodSpec) bool {
		return (spec.Resources != nil || old.Resources != nil) && !apiequality.Semantic.DeepEqual(spec.Resources, old.Resources)
	}},
	{"InPlacePodVerticalScalingInitContainers", func(spec, old *corev1.PodSpec) bool {
		for i := range old.InitContainers {
			c := &old.InitContainers[i]
			if !podspec.IsSidecar(c) && i < len(spec.InitContainers) && !reflect.DeepEqual(c.Resources, spec.InitContainers[i].Resources) {
				return true
			}
		}
		return false
	}},
	{"InPlacePodVerticalScalingMemoryBackedVolumes", func(spec, old *corev1.PodSpec) bool {
		if len(spec.Volumes) != len(old.Volumes) {
			return false // validation refuses that, and what else is wrong with volumes
		}
		for i := range spec.Volumes {
			v, was := &spec.Volumes[i], &old.Volumes[i]
			if v.Name == was.Name && memorySize(v) != nil && memorySize(was) != nil && memorySize(v).Cmp(*memorySize(was)) != 0 {
				return true
			}
		}
		return false
	}},
}

// memorySize is the limit of a volume in memory; nil: it is none, or has no limit.
func memorySize(v *corev1.Volume) *resource.Quantity {
	if v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory {
		return nil
	}
	return v.EmptyDir.SizeLimit
}

func (p *plugin) validateFeatures(ctx context.Context, a *admission.Attributes) error {
	if a.Subresource != "" && a.Subresource != "resize" {
		return nil
	}
	pod, old, err := update(a)
	if err != nil || pod == nil {
		return err
	}
	var needed []string
	for _, n := range needs {
		if n.when(&pod.Spec, &old.Spec) {
			needed = append(needed, n.feature)
		}
	}
	if len(needed) == 0 {
		return nil
	}
	node, err := p.node(ctx, a, pod.Spec.NodeName)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(needed, func(f string) bool { return slices.Contains(node.Status.DeclaredFeatures, f) })
	if len(missing) > 0 {
		return admission.Forbiddenf(a, "pod update requires features %s which are not available on node %q", strings.Join(missing, ", "), node.Name)
	}
	return nil
}
