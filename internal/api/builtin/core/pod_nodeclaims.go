package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// nodeClaims validates the claims of a pod that take from what its node can allocate.
func nodeClaims(s *corev1.PodStatus, spec *corev1.PodSpec, e rules.Errors) {
	unique(s.NodeAllocatableResourceClaimStatuses, func(c *corev1.NodeAllocatableResourceClaimStatus) string { return c.ResourceClaimName }, e)
	for i := range s.NodeAllocatableResourceClaimStatuses {
		nodeClaim(&s.NodeAllocatableResourceClaimStatuses[i], s, spec, e.Item(i))
	}
}

func nodeClaim(c *corev1.NodeAllocatableResourceClaimStatus, s *corev1.PodStatus, spec *corev1.PodSpec, e rules.Errors) {
	is := func(name *string) bool { return name != nil && *name == c.ResourceClaimName }
	if e.Present("resourceClaimName", c.ResourceClaimName) &&
		!slices.ContainsFunc(spec.ResourceClaims, func(p corev1.PodResourceClaim) bool { return is(p.ResourceClaimName) }) &&
		!slices.ContainsFunc(s.ResourceClaimStatuses, func(p corev1.PodResourceClaimStatus) bool { return is(p.ResourceClaimName) }) {
		e.Field("resourceClaimName").Invalid(c.ResourceClaimName, "the pod has no such claim")
	}
	unique(c.Containers, func(name *string) string { return *name }, e.Field("containers"))
	mapping := e.Field("mapping")
	unique(c.Mapping, func(m *corev1.NodeAllocatableMappedResources) string { return string(m.Name) }, mapping)
	for i := range c.Mapping {
		m, item := &c.Mapping[i], mapping.Item(i)
		nodeResource(m.Name, item)
		if m.Quantity == nil {
			item.Field("quantity").Required("")
		}
		notNegative(m.Quantity, item.Field("quantity"))
	}
	overhead := e.Field("overhead")
	unique(c.Overhead, func(o *corev1.NodeAllocatableOverheadResources) string { return string(o.Name) }, overhead)
	for i := range c.Overhead {
		o, item := &c.Overhead[i], overhead.Item(i)
		nodeResource(o.Name, item)
		if o.PerPod == nil && o.PerContainer == nil {
			item.Invalid("", "perPod or perContainer must be set")
		}
		notNegative(o.PerPod, item.Field("perPod"))
		notNegative(o.PerContainer, item.Field("perContainer"))
	}
}

// unique reports the items of a list whose keys earlier items have.
func unique[T any](list []T, key func(*T) string, e rules.Errors) {
	seen := make(map[string]bool, len(list))
	for i := range list {
		k := key(&list[i])
		if seen[k] {
			e.Item(i).Duplicate(k)
		}
		seen[k] = true
	}
}

// nodeResource requires the name of a resource that nodes have by themselves.
func nodeResource(name corev1.ResourceName, e rules.Errors) {
	e.Present("name", string(name))
	if name != corev1.ResourceCPU && name != corev1.ResourceMemory && !rules.IsHugePages(name) {
		e.Field("name").Invalid(name, "must be a node allocatable resource name")
	}
}

func notNegative(q *resource.Quantity, e rules.Errors) {
	if q != nil && q.Sign() < 0 {
		e.Invalid(q.String(), "must be non-negative")
	}
}
