package allocation

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"
)

// This file reads the addresses and ports of a stored service.

// clusterIPs returns the addresses of a service, as written. Services from before dual-stack have only clusterIP.
func clusterIPs(s *corev1.Service) []string {
	switch {
	case s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone:
		return nil
	case len(s.Spec.ClusterIPs) == 0:
		return []string{s.Spec.ClusterIP}
	}
	return s.Spec.ClusterIPs
}

// parseAddress parses an address as leniently as old servers validated it.
func parseAddress(s string) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return a.Unmap(), ok
}

func hasAddress(s *corev1.Service, address netip.Addr) bool {
	return slices.ContainsFunc(clusterIPs(s), func(text string) bool {
		a, ok := parseAddress(text)
		return ok && a == address
	})
}

// nodePorts returns a service's node ports, including that of the health check, without duplicates: ports of different
// protocols may share one.
func nodePorts(s *corev1.Service) []int32 {
	var out []int32
	add := func(p int32) {
		if p != 0 && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for i := range s.Spec.Ports {
		add(s.Spec.Ports[i].NodePort)
	}
	add(s.Spec.HealthCheckNodePort)
	return out
}
