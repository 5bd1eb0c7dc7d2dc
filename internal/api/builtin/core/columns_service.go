package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kanzen-io/kanzen/internal/api/builtin/cells"
	"github.com/kanzen-io/kanzen/internal/engine"
)

func serviceTable() *engine.Table {
	spec := corev1.ServiceSpec{}.SwaggerDoc()
	return engine.TableOf(serviceRow,
		cells.Name(),
		cells.String("Type", spec["type"]),
		cells.String("Cluster-IP", spec["clusterIP"]),
		cells.String("External-IP", spec["externalIPs"]),
		cells.String("Port(s)", spec["ports"]),
		cells.Age(),
		cells.Wide(cells.String("Selector", spec["selector"])),
	)
}

func serviceRow(s *corev1.Service) []any {
	clusterIP := cells.None
	if len(s.Spec.ClusterIPs) > 0 {
		clusterIP = s.Spec.ClusterIPs[0]
	}
	return []any{
		s.Name, string(s.Spec.Type), clusterIP, externalAddress(s), cells.Or(servicePorts(s.Spec.Ports), cells.None),
		cells.Since(s.CreationTimestamp), labelsText(s.Spec.Selector),
	}
}

// externalAddress returns the addresses under which clients outside of the cluster reach the service.
func externalAddress(s *corev1.Service) string {
	externalIPs := s.Spec.ExternalIPs
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		if len(externalIPs) == 0 {
			return cells.None
		}
		return strings.Join(externalIPs, ",")
	case corev1.ServiceTypeLoadBalancer:
		var addresses []string
		for _, a := range s.Status.LoadBalancer.Ingress {
			if t := cells.Or(a.IP, a.Hostname); t != "" {
				addresses = append(addresses, t)
			}
		}
		slices.Sort(addresses)
		return cells.Or(strings.Join(append(slices.Compact(addresses), externalIPs...), ","), "<pending>")
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	}
	return cells.Unknown
}

func servicePorts(ports []corev1.ServicePort) string {
	texts := make([]string, len(ports))
	for i, p := range ports {
		if p.NodePort > 0 {
			texts[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		} else {
			texts[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		}
	}
	return strings.Join(texts, ",")
}
