package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/object/features"
)

// defaultPodResources sets missing pod-level resources from those of the containers, if a client set some pod-level
// resources. It is what was done before CompletePodResources.
func defaultPodResources(spec *corev1.PodSpec) {
	r := spec.Resources
	if len(r.Limits) > 0 || len(r.Requests) > 0 {
		limits := ContainerTotal(spec, limitsOf)
		if r.Limits == nil {
			r.Limits = corev1.ResourceList{}
		}
		fillResources(r.Limits, limits, func(name corev1.ResourceName) bool {
			_, requested := r.Requests[name]
			return isHugePages(name) && !requested
		})
		if len(r.Limits) == 0 {
			r.Limits = nil
		}
	}
	if len(r.Limits) == 0 {
		return
	}
	requests := ContainerTotal(spec, requestsOf)
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	fillResources(r.Requests, requests, func(name corev1.ResourceName) bool {
		return name == corev1.ResourceCPU || name == corev1.ResourceMemory
	})
	fillResources(r.Requests, r.Limits, isPodLevelResource)
	if len(r.Requests) == 0 {
		r.Requests = nil
	}
}

// CompletePodResources sets missing pod-level resources when the pod has all its containers, those of webhooks too.
func (p Policy) CompletePodResources(spec *corev1.PodSpec) {
	r := spec.Resources
	if r == nil || len(r.Limits) == 0 && len(r.Requests) == 0 || !p.Gates.Enabled(features.PodLevelResourcesFixDefaulting) {
		return
	}
	fillResources(grown(&r.Limits), ContainerTotal(spec, limitsOf), func(name corev1.ResourceName) bool {
		_, requested := r.Requests[name]
		return isHugePages(name) && !requested
	})
	fillResources(grown(&r.Requests), ContainerTotal(spec, requestsOf), func(name corev1.ResourceName) bool {
		return name == corev1.ResourceCPU || name == corev1.ResourceMemory
	})
	fillResources(r.Requests, r.Limits, isPodLevelResource)
	limitPod(spec)
	if len(r.Limits) == 0 {
		r.Limits = nil
	}
	if len(r.Requests) == 0 {
		r.Requests = nil
	}
}

// limitPod limits what the pod requests and all of its containers limit.
func limitPod(spec *corev1.PodSpec) {
	r := spec.Resources
	var limits corev1.ResourceList
	for name, request := range r.Requests {
		if _, limited := r.Limits[name]; limited || !isPodLevelResource(name) || anyContainer(spec, func(c *corev1.Container) bool {
			_, limited := c.Resources.Limits[name]
			return !limited
		}) {
			continue
		}
		if limits == nil {
			limits = ContainerTotal(spec, limitsOf)
		}
		limit, limited := limits[name]
		if !limited {
			continue
		}
		if request.Cmp(limit) > 0 {
			limit = request
		}
		r.Limits[name] = limit.DeepCopy()
	}
}

// grown returns a list, which it makes if there is none.
func grown(l *corev1.ResourceList) corev1.ResourceList {
	if *l == nil {
		*l = corev1.ResourceList{}
	}
	return *l
}

func limitsOf(c *corev1.Container) corev1.ResourceList   { return c.Resources.Limits }
func requestsOf(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests }

// isPodLevelResource reports whether a pod may have the resource at pod level.
func isPodLevelResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || isHugePages(name)
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// ContainerTotal returns the largest amounts that a pod's containers need at the same time: either all regular
// containers and sidecars, or one init container and the sidecars started before it.
func ContainerTotal(spec *corev1.PodSpec, of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
	total, sidecars, peak := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.Containers {
		AddResources(total, of(&spec.Containers[i]))
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if IsSidecar(c) {
			AddResources(total, of(c))
			AddResources(sidecars, of(c))
			RaiseResources(peak, sidecars)
			continue
		}
		needs := corev1.ResourceList{}
		AddResources(needs, sidecars)
		AddResources(needs, of(c))
		RaiseResources(peak, needs)
	}
	RaiseResources(total, peak)
	return total
}

// AddResources adds a list to a sum.
func AddResources(sum, list corev1.ResourceList) {
	for name, q := range list {
		if have, found := sum[name]; found {
			have.Add(q)
			sum[name] = have
		} else {
			sum[name] = q.DeepCopy()
		}
	}
}

// RaiseResources raises each amount to at least that in list.
func RaiseResources(most, list corev1.ResourceList) {
	for name, q := range list {
		if have, found := most[name]; !found || q.Cmp(have) > 0 {
			most[name] = q.DeepCopy()
		}
	}
}
