package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// extends reports whether a variable uses an earlier one of its own name: PATH=$(PATH):/more.
func extends(ev *corev1.EnvVar) bool {
	ref := "$(" + ev.Name + ")"
	return ev.ValueFrom == nil && ev.Value != ref && strings.Contains(ev.Value, ref)
}

type portKey struct {
	port     int32
	protocol corev1.Protocol
}

type portAt struct {
	*corev1.ContainerPort
	in    ContainerPlace
	index int
}

func (p portAt) at() *field.Path { return p.in.Child("ports").Index(p.index) }

// ports warns about container ports that repeat or contradict each other.
func (w *warner) ports() {
	seen := map[portKey][]portAt{}
	names := map[string]portAt{}
	for path, c := range ContainersAt(w.spec, w.at) {
		for i := range c.Ports {
			p := portAt{&c.Ports[i], path, i}
			if p.HostIP != "" && p.HostPort == 0 {
				w.warn(p.at(), "hostIP set without hostPort")
			}
			key := portKey{p.ContainerPort.ContainerPort, p.Protocol}
			for _, other := range seen[key] {
				w.portPair(p, other)
			}
			seen[key] = append(seen[key], p)
			if p.Name == "" {
				continue
			}
			if first, found := names[p.Name]; found {
				w.warn(p.at(), "duplicate port name %q with %s, services and probes that select ports by name will use %s", p.Name, first.at(), first.at())
			} else {
				names[p.Name] = p
			}
		}
	}
}

func (w *warner) portPair(p, other portAt) {
	switch {
	case p.HostIP == other.HostIP && p.HostPort == other.HostPort:
		w.warn(p.at(), "duplicate port definition with %s", other.at())
	case p.HostPort == 0 || other.HostPort == 0:
		w.warn(p.at(), "overlapping port definition with %s", other.at())
	case p.HostPort == other.HostPort && (p.HostIP == "") != (other.HostIP == ""):
		w.warn(p.at(), "dangerously ambiguous port definition with %s", other.at())
	}
}
