package podspec

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Containers yields every container of a pod: init, regular and ephemeral ones, the last converted to Container.
func Containers(spec *corev1.PodSpec) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i := range spec.InitContainers {
			if !yield(&spec.InitContainers[i]) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(&spec.Containers[i]) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			if !yield((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)) {
				return
			}
		}
	}
}

// ContainersAt is Containers with the path of each container, below the pod spec.
func ContainersAt(spec *corev1.PodSpec, path *field.Path) iter.Seq2[*field.Path, *corev1.Container] {
	return func(yield func(*field.Path, *corev1.Container) bool) {
		n := 0
		for c := range Containers(spec) {
			var at *field.Path
			switch i, regular := n-len(spec.InitContainers), len(spec.Containers); {
			case i < 0:
				at = path.Child("initContainers").Index(n)
			case i < regular:
				at = path.Child("containers").Index(i)
			default:
				at = path.Child("ephemeralContainers").Index(i - regular)
			}
			n++
			if !yield(at, c) {
				return
			}
		}
	}
}

// anyContainer reports whether is returns true for a container of spec; spec may be nil.
func anyContainer(spec *corev1.PodSpec, is func(*corev1.Container) bool) bool {
	if spec == nil {
		return false
	}
	for c := range Containers(spec) {
		if is(c) {
			return true
		}
	}
	return false
}

// IsSidecar reports whether an init container keeps running beside the regular ones.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
