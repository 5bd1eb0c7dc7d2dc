package core

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// resizeVolumes validates the volumes of a resized pod, and resets those of s to old: only the size of a volume in memory may
// change.
func resizeVolumes(s, old *corev1.PodSpec, e rules.Errors) {
	asked := s.Volumes
	s.Volumes = old.Volumes
	if len(asked) != len(old.Volumes) {
		e.Forbidden("volumes may not be added or removed on resize")
		return
	}
	for i := range asked {
		if v, was, at := &asked[i], &old.Volumes[i], e.Item(i); v.Name != was.Name {
			at.Field("name").Forbidden("volumes may not be renamed or reordered on resize")
		} else {
			resizeVolume(v, was, at)
		}
	}
}

func resizeVolume(v, was *corev1.Volume, e rules.Errors) {
	same := v.DeepCopy()
	if v.EmptyDir != nil && was.EmptyDir != nil {
		same.EmptyDir.SizeLimit = was.EmptyDir.SizeLimit
	}
	if !apiequality.Semantic.DeepEqual(same, was) {
		e.Forbidden("only sizeLimit of memory-backed emptyDir volumes is mutable on resize")
		return
	}
	if v.EmptyDir == nil {
		return
	}
	size, before, at := v.EmptyDir.SizeLimit, was.EmptyDir.SizeLimit, e.Field("emptyDir").Field("sizeLimit")
	limited, wasLimited := size != nil && !size.IsZero(), before != nil && !before.IsZero()
	switch {
	case limited != wasLimited:
		at.Forbidden("adding or removing sizeLimit on an existing volume is not allowed")
	case limited && size.Cmp(*before) != 0 && v.EmptyDir.Medium != corev1.StorageMediumMemory:
		at.Forbidden("sizeLimit is only mutable for memory-backed emptyDir volumes")
	}
}
