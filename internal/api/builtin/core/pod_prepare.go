package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/object/equal"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/podspec"
)

// preparePod sets what the server decides about a new pod.
func preparePod(ctx context.Context, p *corev1.Pod, d Deps) {
	p.Generation = 1
	p.Status = corev1.PodStatus{Phase: corev1.PodPending}
	d.Pods.DropDisabled(&p.Spec, nil)
	if len(p.Spec.SchedulingGates) > 0 {
		setPodCondition(&p.Status, corev1.PodCondition{
			Type:    corev1.PodScheduled,
			Status:  corev1.ConditionFalse,
			Reason:  corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates",
		}, d)
	}
	mergeLabelKeys(p, d.Pods)
	podspec.SyncAppArmor(ctx, p)
	d.Pods.CompletePodResources(&p.Spec)
	p.Status.QOSClass = podspec.QOSClass(&p.Spec, d.Pods.Gates)
}

// keepPodResources keeps the resources of a pod from clients that do not know them.
func (d Deps) keepPodResources(p, old *corev1.Pod) {
	if p.Spec.Resources == nil && old.Spec.Resources != nil && d.Pods.Gates.Enabled(features.PodLevelResourcesFixDefaulting) {
		p.Spec.Resources = old.Spec.Resources.DeepCopy()
	}
}

// preparePodUpdate keeps the status and increments the generation if the spec changes.
func (d Deps) preparePodUpdate(_ context.Context, p, old *corev1.Pod) {
	p.Status = old.Status
	d.keepPodResources(p, old)
	d.Pods.DropDisabled(&p.Spec, &old.Spec)
	countPodGeneration(p, old)
}

func countPodGeneration(p, old *corev1.Pod) {
	if !equal.Objects(&p.Spec, &old.Spec) {
		p.Generation++
	}
}

// mergeLabelKeys writes the values of matchLabelKeys of affinity terms and spread constraints into their selectors:
// they then select the pods of this pod's revision, for example, and the scheduler needs no lookup.
func mergeLabelKeys(p *corev1.Pod, policy podspec.Policy) {
	if a := p.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			mergeAffinityKeys(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, p.Labels)
		}
		if a.PodAntiAffinity != nil {
			mergeAffinityKeys(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, p.Labels)
		}
	}
	if !policy.MergesSpreadKeys() {
		return
	}
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		mergeKeys(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, p.Labels)
	}
}

func mergeAffinityKeys(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, labels map[string]string) {
	merge := func(t *corev1.PodAffinityTerm) {
		mergeKeys(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
		mergeKeys(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels)
	}
	for i := range preferred {
		merge(&preferred[i].PodAffinityTerm)
	}
	for i := range required {
		merge(&required[i])
	}
}

// mergeKeys adds to a selector; a nil selector selects nothing and stays nil.
func mergeKeys(s *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator, labels map[string]string) {
	if s == nil {
		return
	}
	for _, key := range keys {
		if value, found := labels[key]; found {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
		}
	}
}
