// Package podresources adds up the requests and limits of a pod.
package podresources

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

// Options say what is counted.
type Options struct {
	// Status counts the resources that containers hold during a resize: the
	// largest of the desired, the allocated and the actual ones.
	Status bool
	// NoOverhead leaves the pod's overhead out.
	NoOverhead bool
	// NoHugePages takes huge pages from the containers even if the pod as a
	// whole has some.
	NoHugePages bool
}

// Requests returns the total requests of a pod.
func Requests(pod *corev1.Pod, o Options) corev1.ResourceList {
	list := podspec.ContainerTotal(&pod.Spec, func(c *corev1.Container) corev1.ResourceList { return o.requestsOf(pod, c) })
	if r := pod.Spec.Resources; r != nil {
		o.override(list, r.Requests)
	}
	if !o.NoOverhead {
		podspec.AddResources(list, pod.Spec.Overhead)
	}
	return list
}

// Limits returns the total limits of a pod. Overhead is added only to resources
// that have a limit.
func Limits(pod *corev1.Pod, o Options) corev1.ResourceList {
	list := podspec.ContainerTotal(&pod.Spec, func(c *corev1.Container) corev1.ResourceList { return o.limitsOf(pod, c) })
	if r := pod.Spec.Resources; r != nil {
		o.override(list, r.Limits)
	}
	if o.NoOverhead {
		return list
	}
	for name, q := range pod.Spec.Overhead {
		if have, ok := list[name]; ok && !have.IsZero() {
			have.Add(q)
			list[name] = have
		}
	}
	return list
}

// ForWholePod says that the pod as a whole has requests or limits.
func ForWholePod(pod *corev1.Pod) bool {
	if pod.Spec.Resources == nil {
		return false
	}
	for _, list := range [...]corev1.ResourceList{pod.Spec.Resources.Requests, pod.Spec.Resources.Limits} {
		for name := range list {
			if (Options{}).ofWholePod(name) {
				return true
			}
		}
	}
	return false
}

func (o Options) ofWholePod(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory ||
		!o.NoHugePages && strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// override replaces the sum of the containers by the resources of the pod as a
// whole.
func (o Options) override(list, whole corev1.ResourceList) {
	for name, q := range whole {
		if o.ofWholePod(name) {
			list[name] = q
		}
	}
}

func (o Options) requestsOf(pod *corev1.Pod, c *corev1.Container) corev1.ResourceList {
	s := o.statusOf(pod, c.Name)
	switch {
	case s == nil || s.Resources == nil:
		return c.Resources.Requests
	case resizeInfeasible(pod):
		return most(s.Resources.Requests, s.AllocatedResources)
	}
	return most(c.Resources.Requests, s.Resources.Requests, s.AllocatedResources)
}

func (o Options) limitsOf(pod *corev1.Pod, c *corev1.Container) corev1.ResourceList {
	s := o.statusOf(pod, c.Name)
	switch {
	case s == nil || s.Resources == nil:
		return c.Resources.Limits
	case resizeInfeasible(pod):
		return s.Resources.Limits
	}
	return most(c.Resources.Limits, s.Resources.Limits)
}

// statusOf returns the status of a regular container or sidecar; others do not
// change while they run.
func (o Options) statusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	if !o.Status {
		return nil
	}
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == name {
			return s
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name && !podspec.IsSidecar(c) {
			return nil
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		if s := &pod.Status.InitContainerStatuses[i]; s.Name == name {
			return s
		}
	}
	return nil
}

// resizeInfeasible says that the node has refused the resize in the spec.
func resizeInfeasible(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodResizePending {
			return c.Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}

func most(lists ...corev1.ResourceList) corev1.ResourceList {
	top := corev1.ResourceList{}
	for _, list := range lists {
		podspec.RaiseResources(top, list)
	}
	return top
}
