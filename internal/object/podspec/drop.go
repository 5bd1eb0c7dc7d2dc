package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/object/features"
)

// Most fields of disabled features are dropped by the package gated. This file has those of which other fields depend.

// DropDisabledTemplate is DropDisabled for a template; either argument may be nil.
func (p Policy) DropDisabledTemplate(t, old *corev1.PodTemplateSpec) {
	if t == nil {
		return
	}
	var oldSpec *corev1.PodSpec
	if old != nil {
		oldSpec = &old.Spec
	}
	p.DropDisabled(&t.Spec, oldSpec)
}

// DropDisabled removes from spec the fields of disabled features, unless old (nil on create) uses them already.
func (p Policy) DropDisabled(spec, old *corev1.PodSpec) {
	if p.Gates.Enabled(features.ContainerStopSignals) || anyContainer(old, hasStopSignal) {
		return
	}
	for c := range Containers(spec) {
		if hasStopSignal(c) {
			c.Lifecycle.StopSignal = nil
			if *c.Lifecycle == (corev1.Lifecycle{}) {
				c.Lifecycle = nil
			}
		}
	}
}

// MergesSpreadKeys says that the values of matchLabelKeys of spread constraints are written into their selectors.
func (p Policy) MergesSpreadKeys() bool {
	return p.Gates.Enabled(features.MatchLabelKeysInPodTopologySpread) && p.Gates.Enabled(features.MatchLabelKeysInPodTopologySpreadSelectorMerge)
}

func hasStopSignal(c *corev1.Container) bool {
	return c.Lifecycle != nil && c.Lifecycle.StopSignal != nil
}

// DropDisabledStatus is DropDisabled for the status of a pod.
func (p Policy) DropDisabledStatus(s, old *corev1.PodStatus) {
	if p.Gates.Enabled(features.ImageVolumeWithDigest) || anyMountStatus(old, func(m *corev1.VolumeMountStatus) bool { return m.VolumeStatus != nil }) {
		return
	}
	anyMountStatus(s, func(m *corev1.VolumeMountStatus) bool {
		m.VolumeStatus = nil
		return false
	})
}

func anyMountStatus(s *corev1.PodStatus, is func(*corev1.VolumeMountStatus) bool) bool {
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			for j := range list[i].VolumeMounts {
				if is(&list[i].VolumeMounts[j]) {
					return true
				}
			}
		}
	}
	return false
}
