package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
)

func podStatus(d Deps) *engine.Subresource {
	return engine.Status(engine.Typed[*corev1.Pod]{
		PrepareUpdate: d.preparePodStatus,
		ValidateUpdate: func(_ context.Context, p, old *corev1.Pod) field.ErrorList {
			return validatePodStatus(p, old, podOptions(d, old))
		},
		Warn: warnPodStatus,
		Reset: engine.ResetFields(
			[]string{"spec"},
			[]string{"metadata", "deletionTimestamp"},
			[]string{"metadata", "ownerReferences"},
		),
	})
}

// preparePodStatus accepts the status and adds what old kubelets omit.
func (d Deps) preparePodStatus(_ context.Context, p, old *corev1.Pod) {
	p.DeletionTimestamp = nil
	p.OwnerReferences = old.OwnerReferences
	if p.Status.QOSClass == "" {
		p.Status.QOSClass = old.Status.QOSClass
	}
	keepObservedGenerations(&p.Status, &old.Status)
	keepClaimStatuses(&p.Status, &old.Status)
	d.Pods.DropDisabledStatus(&p.Status, &old.Status)
}

// keepClaimStatuses copies what clients that are older than resource claims leave out. An empty list clears a field.
func keepClaimStatuses(s, old *corev1.PodStatus) {
	if s.ResourceClaimStatuses == nil {
		s.ResourceClaimStatuses = old.ResourceClaimStatuses
	}
	if s.ExtendedResourceClaimStatus == nil {
		s.ExtendedResourceClaimStatus = old.ExtendedResourceClaimStatus
	}
	if s.NodeAllocatableResourceClaimStatuses == nil {
		s.NodeAllocatableResourceClaimStatuses = old.NodeAllocatableResourceClaimStatuses
	}
}

// keepObservedGenerations copies observed generations from old that the client omitted. A condition type may occur more
// than once; the n-th one copies from the n-th.
func keepObservedGenerations(s, old *corev1.PodStatus) {
	if s.ObservedGeneration == 0 {
		s.ObservedGeneration = old.ObservedGeneration
	}
	known := map[corev1.PodConditionType][]int64{}
	for _, c := range old.Conditions {
		known[c.Type] = append(known[c.Type], c.ObservedGeneration)
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		list := known[c.Type]
		if len(list) == 0 {
			continue
		}
		known[c.Type] = list[1:]
		if c.ObservedGeneration == 0 {
			c.ObservedGeneration = list[0]
		}
	}
}
