package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kanzen-io/kanzen/internal/object/features"
)

// QOSClass returns the QoS class: BestEffort has no requests or limits, in Guaranteed all requests equal the limits,
// everything else is Burstable. Only CPU and memory count.
func QOSClass(spec *corev1.PodSpec, gates features.Set) corev1.PodQOSClass {
	var requests, limits compute
	guaranteed := true
	add := func(r *corev1.ResourceRequirements, must bool) {
		requests.add(r.Requests)
		if limits.add(r.Limits) < 2 && must {
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
	if none := (compute{}).set; requests.set == none && limits.set == none {
		return corev1.PodQOSBestEffort
	}
	if !guaranteed || requests.set != limits.set {
		return corev1.PodQOSBurstable
	}
	for i := range computeResources {
		if requests.sums[i].Cmp(limits.sums[i]) != 0 {
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

// computeResources are those that the class is told by.
var computeResources = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// compute sums up amounts of computeResources that are above zero.
type compute struct {
	set  [len(computeResources)]bool
	sums [len(computeResources)]resource.Quantity
}

// add returns how many of the resources a list has.
func (c *compute) add(list corev1.ResourceList) (n int) {
	for i, name := range computeResources {
		q, found := list[name]
		switch {
		case !found || q.Sign() <= 0:
			continue
		case c.set[i]:
			c.sums[i].Add(q)
		default:
			c.set[i], c.sums[i] = true, q.DeepCopy()
		}
		n++
	}
	return n
}
