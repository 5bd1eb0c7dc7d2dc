package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// ephemeralContainersRules allow only the addition of ephemeral containers. What else a writer changes is not stored, but as in
// kube-apiserver field management records it, here and for a resize.
func ephemeralContainersRules(d Deps) engine.Rules {
	return engine.Typed[*corev1.Pod]{
		PrepareUpdate: func(_ context.Context, p, old *corev1.Pod) {
			containers := p.Spec.EphemeralContainers
			p.Spec = *old.Spec.DeepCopy()
			p.Spec.EphemeralContainers = containers
			p.Status = old.Status
			metav1.ResetObjectMetaForStatus(&p.ObjectMeta, &old.ObjectMeta)
			d.Pods.DropDisabled(&p.Spec, &old.Spec)
			countPodGeneration(p, old)
		},
		ValidateUpdate: func(_ context.Context, p, old *corev1.Pod) field.ErrorList {
			return validateEphemeralContainers(p, old, podOptions(d, old))
		},
	}.Rules()
}

// resizeRules allow only changes of the resources of running containers.
func resizeRules(d Deps) engine.Rules {
	return engine.Typed[*corev1.Pod]{
		PrepareUpdate: func(_ context.Context, p, old *corev1.Pod) {
			d.keepAllButResources(p, old)
			d.keepPodResources(p, old)
			d.Pods.CompletePodResources(&p.Spec)
			d.Pods.DropDisabled(&p.Spec, &old.Spec)
			countPodGeneration(p, old)
		},
		ValidateUpdate: func(_ context.Context, p, old *corev1.Pod) field.ErrorList {
			return validateResize(p, old, podOptions(d, old))
		},
	}.Rules()
}

// keepAllButResources takes everything except resources from old. If containers were added, removed or reordered it
// leaves p alone, and validation reports an error.
func (d Deps) keepAllButResources(p, old *corev1.Pod) {
	if len(p.Spec.Containers) != len(old.Spec.Containers) || len(p.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return
	}
	asked := p.Spec
	p.Spec = *old.Spec.DeepCopy()
	p.Spec.Resources = asked.Resources
	if d.Pods.Gates.Enabled(features.InPlacePodVerticalScalingMemoryBackedVolumes) {
		p.Spec.Volumes = asked.Volumes
	}
	p.Spec.Containers = resized(asked.Containers, p.Spec.Containers)
	p.Spec.InitContainers = resized(asked.InitContainers, p.Spec.InitContainers)
	p.Status = old.Status
	metav1.ResetObjectMetaForStatus(&p.ObjectMeta, &old.ObjectMeta)
}

// resized returns old, which it may change, with the resources in asked.
func resized(asked, old []corev1.Container) []corev1.Container {
	for i := range asked {
		if asked[i].Name != old[i].Name {
			return asked
		}
		old[i].Resources = asked[i].Resources
		old[i].ResizePolicy = asked[i].ResizePolicy
	}
	return old
}

func validateEphemeralContainers(p, old *corev1.Pod, o podspec.Options) field.ErrorList {
	if hasKey(old.Annotations, corev1.MirrorPodAnnotationKey) {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods may not have ephemeral containers")}
	}
	e := rules.At(field.NewPath("spec", "ephemeralContainers"))
	e.Add(rules.ObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta))
	e.Add(validatePod(p, o))
	e.Add(validatePodAnnotations(p, old, o))
	asked := map[string]*corev1.EphemeralContainer{}
	for i := range p.Spec.EphemeralContainers {
		asked[p.Spec.EphemeralContainers[i].Name] = &p.Spec.EphemeralContainers[i]
	}
	for i := range old.Spec.EphemeralContainers {
		c := &old.Spec.EphemeralContainers[i]
		if a := asked[c.Name]; a == nil || !apiequality.Semantic.DeepEqual(*c, *a) {
			e.Forbidden("ephemeral container " + c.Name + " may not be changed or taken away")
		}
	}
	return e.List()
}

// validateResize validates a resize. It may change CPU and memory, but not remove amounts or change the QoS class.
func validateResize(p, old *corev1.Pod, o podspec.Options) field.ErrorList {
	top := rules.At(field.NewPath(""))
	if hasKey(old.Annotations, corev1.MirrorPodAnnotationKey) {
		top.Forbidden("static pods cannot be resized")
		return top.List()
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		top.Forbidden("windows pods cannot be resized")
		return top.List()
	}
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta))
	e.Add(validatePod(p, o))
	class := old.Status.QOSClass
	if class == "" {
		class = podspec.QOSClass(&old.Spec, o.Gates)
	}
	if class != podspec.QOSClass(&p.Spec, o.Gates) {
		e.Invalid(class, "the pod's quality of service may not change by resizing")
	}
	if !nodeResizes(&old.Status) {
		e.Forbidden("the pod's node does not support resizing")
	}
	if len(old.Status.NodeAllocatableResourceClaimStatuses) > 0 {
		e.Forbidden("pods with claims of node resources cannot be resized")
	}
	spec := p.Spec.DeepCopy()
	if hasAmounts(p.Spec.Resources) || hasAmounts(old.Spec.Resources) {
		resizePod(spec, &old.Spec, e)
	}
	if !sameContainerOrder(&p.Spec, &old.Spec, e) {
		return e.List()
	}
	resizeContainers(spec, &old.Spec, e)
	if o.Gates.Enabled(features.InPlacePodVerticalScalingMemoryBackedVolumes) {
		resizeVolumes(spec, &old.Spec, e.Field("volumes"))
	}
	if len(e.List()) == 0 && !apiequality.Semantic.DeepEqual(*spec, old.Spec) {
		e.Forbidden("only cpu and memory may be changed")
	}
	return e.List()
}

// nodeResizes reports whether the kubelet reports resources of running containers, which it does if it supports
// resizing.
func nodeResizes(s *corev1.PodStatus) bool {
	for i := range s.ContainerStatuses {
		if s.ContainerStatuses[i].State.Running != nil {
			return s.ContainerStatuses[i].Resources != nil
		}
	}
	return true
}

func hasAmounts(r *corev1.ResourceRequirements) bool {
	return r != nil && len(r.Requests)+len(r.Limits) > 0
}

func sameContainerOrder(s, old *corev1.PodSpec, e rules.Errors) bool {
	same := true
	for _, list := range []struct {
		name   string
		s, old []corev1.Container
	}{{"containers", s.Containers, old.Containers}, {"initContainers", s.InitContainers, old.InitContainers}} {
		at := e.Field(list.name)
		if len(list.s) != len(list.old) {
			same = false
			at.Forbidden("containers may not be added or taken away by resizing")
			continue
		}
		for i := range list.s {
			if list.s[i].Name != list.old[i].Name {
				same = false
				at.Item(i).Field("name").Forbidden("containers may not be renamed or reordered by resizing")
			}
		}
	}
	return same
}

// resizePod validates pod-level resources, and resets the mutable ones of s to old.
func resizePod(s, old *corev1.PodSpec, e rules.Errors) {
	if old.Resources != nil && s.Resources == nil {
		e.Field("resources").Forbidden("may not be taken away")
		return
	}
	var before corev1.ResourceRequirements
	if old.Resources != nil {
		before = *old.Resources
		amountsRemoved(s.Resources, &before, e.Field("resources"))
	}
	if s.Resources != nil {
		keepComputeOf(s.Resources, &before)
		if old.Resources == nil && !hasAmounts(s.Resources) && len(s.Resources.Claims) == 0 {
			s.Resources = nil
		}
	}
	if !apiequality.Semantic.DeepEqual(s.Resources, old.Resources) {
		e.Forbidden("only cpu and memory of the pod may be changed")
	}
}

// resizeContainers does the same for each container.
func resizeContainers(s, old *corev1.PodSpec, e rules.Errors) {
	for i := range s.InitContainers {
		c, before := &s.InitContainers[i], &old.InitContainers[i]
		at := e.Field("initContainers").Item(i)
		changed := !apiequality.Semantic.DeepEqual(*c, *before)
		resizeContainer(c, before, at.Field("resources"), at)
		if !changed || podspec.IsSidecar(c) {
			continue
		}
		for _, policy := range c.ResizePolicy {
			if policy.RestartPolicy == corev1.RestartContainer {
				at.Forbidden("an init container that would restart cannot be resized")
			}
		}
	}
	for i := range s.Containers {
		resizeContainer(&s.Containers[i], &old.Containers[i], e.Field("containers").Item(i).Field("resources"), e)
	}
}

func resizeContainer(c, old *corev1.Container, amounts, e rules.Errors) {
	amountsRemoved(&c.Resources, &old.Resources, amounts)
	keepComputeOf(&c.Resources, &old.Resources)
	if !apiequality.Semantic.DeepEqual(*c, *old) {
		e.Forbidden("only cpu and memory of containers may be changed")
	}
}

func amountsRemoved(r, old *corev1.ResourceRequirements, e rules.Errors) {
	removed := func(list, old corev1.ResourceList) bool {
		for name := range old {
			if _, found := list[name]; !found {
				return true
			}
		}
		return false
	}
	if removed(r.Requests, old.Requests) {
		e.Field("requests").Forbidden("may not be taken away")
	}
	if removed(r.Limits, old.Limits) {
		e.Field("limits").Forbidden("may not be taken away")
	}
}

// keepComputeOf sets CPU and memory of r to those of old.
func keepComputeOf(r, old *corev1.ResourceRequirements) {
	keep := func(list *corev1.ResourceList, old corev1.ResourceList) {
		if *list == nil && old != nil {
			*list = corev1.ResourceList{}
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, found := old[name]; found {
				(*list)[name] = q
			} else {
				delete(*list, name)
			}
		}
	}
	keep(&r.Requests, old.Requests)
	keep(&r.Limits, old.Limits)
}
