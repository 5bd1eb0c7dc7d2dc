package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/features"
)

// QOSClass returns the QoS class: BestEffort has no requests or limits, in Guaranteed all requests equal the limits,
// everything else is Burstable. Only CPU and memory count.
func QOSClass(spec *corev1.PodSpec, gates features.Set) corev1.PodQOSClass {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	guaranteed := true
	add := func(r *corev1.ResourceRequirements, must bool) {
		AddResources(requests, computeResources(r.Requests))
		l := computeResources(r.Limits)
		AddResources(limits, l)
		if must && len(l) < 2 {
			guaranteed = false
		}
	}
	if r := spec.Resources; r != nil && (setsResources(r) || gates.Off(features.PodLevelResourcesFixKubeletQOSClass)) {
		add(r, len(r.Limits) > 0)
	} else {
		for i := range spec.Containers {
			add(&spec.Containers[i].Resources, true)
		}
		for i := range spec.InitContainers {
			add(&spec.InitContainers[i].Resources, true)
		}
	}
	if len(requests) == 0 && len(limits) == 0 {
		return corev1.PodQOSBestEffort
	}
	if !guaranteed || len(requests) != len(limits) {
		return corev1.PodQOSBurstable
	}
	for name, q := range requests {
		if limit, found := limits[name]; !found || limit.Cmp(q) != 0 {
			return corev1.PodQOSBurstable
		}
	}
	return corev1.PodQOSGuaranteed
}

// setsResources reports whether the resources of a whole pod have an amount of what pods may have as a whole.
func setsResources(r *corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		for name := range list {
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				return true
			}
		}
	}
	return false
}

// computeResources returns the positive entries of list for CPU and memory.
func computeResources(list corev1.ResourceList) corev1.ResourceList {
	var out corev1.ResourceList
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, found := list[name]; found && q.Sign() > 0 {
			if out == nil {
				out = make(corev1.ResourceList, 2)
			}
			out[name] = q
		}
	}
	return out
}
