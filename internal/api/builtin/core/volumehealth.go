package core

import (
	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

const (
	maxHealthConditions = 16
	maxHealthReason     = 256
	maxHealthMessage    = 1024
)

var volumeHealths = []corev1.VolumeHealthStatusType{
	corev1.VolumeHealthDataLoss, corev1.VolumeHealthDegraded, corev1.VolumeHealthInaccessible,
}

// podVolumeHealth validates what a kubelet reports of the volumes of a pod.
func podVolumeHealth(list []corev1.PodVolumeHealth, spec *corev1.PodSpec, e rules.Errors) {
	volumes := map[string]bool{}
	for i := range spec.Volumes {
		volumes[spec.Volumes[i].Name] = true
	}
	unique(list, func(h *corev1.PodVolumeHealth) string { return h.Name }, e)
	for i := range list {
		h, item := &list[i], e.Item(i)
		if item.Present("name", h.Name) && !volumes[h.Name] {
			item.Field("name").NotFound(h.Name)
		}
		healthConditions(h.HealthConditions, item.Field("healthConditions"))
	}
}

// healthConditions validates what is wrong with a volume; each pair of status and reason is once.
func healthConditions(list []corev1.VolumeHealthCondition, e rules.Errors) {
	if len(list) > maxHealthConditions {
		e.AddError(field.TooMany(e.Path(), len(list), maxHealthConditions))
		return
	}
	type key struct {
		status corev1.VolumeHealthStatusType
		reason string
	}
	seen := map[key]bool{}
	for i := range list {
		c, item := &list[i], e.Item(i)
		if k := (key{c.Status, c.Reason}); seen[k] {
			item.Duplicate(map[string]any{"status": c.Status, "reason": c.Reason})
		} else {
			seen[k] = true
		}
		rules.RequiredOneOf(item, "status", c.Status, volumeHealths)
		if item.Present("reason", c.Reason) {
			item.Field("reason").Messages(c.Reason, metavalidation.IsValidConditionReason(c.Reason))
			if len(c.Reason) > maxHealthReason {
				item.Field("reason").TooLong(maxHealthReason)
			}
		}
		if len(c.Message) > maxHealthMessage {
			item.Field("message").TooLong(maxHealthMessage)
		}
	}
}
