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

// ContainerPlace is where a container is. Its path is made when somebody asks for it.
type ContainerPlace struct {
	spec  *field.Path
	list  string
	index int
}

// Path returns the path of the container.
func (p ContainerPlace) Path() *field.Path { return p.spec.Child(p.list).Index(p.index) }

// Child returns the path of something in the container.
func (p ContainerPlace) Child(name string, more ...string) *field.Path {
	return p.Path().Child(name, more...)
}

// ContainersAt is Containers with the place of each container, below the path of the pod spec.
func ContainersAt(spec *corev1.PodSpec, path *field.Path) iter.Seq2[ContainerPlace, *corev1.Container] {
	return func(yield func(ContainerPlace, *corev1.Container) bool) {
		n := 0
		for c := range Containers(spec) {
			at := ContainerPlace{path, "initContainers", n}
			if i := n - len(spec.InitContainers); i >= len(spec.Containers) {
				at.list, at.index = "ephemeralContainers", i-len(spec.Containers)
			} else if i >= 0 {
				at.list, at.index = "containers", i
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
