package core

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// dropForType clears fields that no longer apply after a change of the type, if the server may have set them and the
// client did not change them. Changed ones stay, and validation rejects them.
func dropForType(s, old *corev1.Service) {
	spec, before := &s.Spec, &old.Spec
	if hasClusterIP(old) && !hasClusterIP(s) {
		if spec.ClusterIP == before.ClusterIP && slices.Equal(spec.ClusterIPs, before.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if reflect.DeepEqual(spec.IPFamilies, before.IPFamilies) {
			spec.IPFamilies = nil
		}
		dropSame(&spec.IPFamilyPolicy, before.IPFamilyPolicy)
	}
	if hasNodePorts(old) && !hasNodePorts(s) && noNewNodePorts(s, old) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if hasHealthPort(old) && !hasHealthPort(s) && spec.HealthCheckNodePort == before.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if before.Type == corev1.ServiceTypeLoadBalancer && spec.Type != corev1.ServiceTypeLoadBalancer {
		dropSame(&spec.AllocateLoadBalancerNodePorts, before.AllocateLoadBalancerNodePorts)
		dropSame(&spec.LoadBalancerClass, before.LoadBalancerClass)
	}
	if isExternal(old) && !isExternal(s) && spec.ExternalTrafficPolicy == before.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

func dropSame[T any](p **T, old *T) {
	if apiequality.Semantic.DeepEqual(*p, old) {
		*p = nil
	}
}

func noNewNodePorts(s, old *corev1.Service) bool {
	had := nodePorts(old)
	return !slices.ContainsFunc(nodePorts(s), func(p int32) bool { return !slices.Contains(had, p) })
}

func nodePorts(s *corev1.Service) []int32 {
	var out []int32
	for i := range s.Spec.Ports {
		if p := s.Spec.Ports[i].NodePort; p != 0 {
			out = append(out, p)
		}
	}
	return out
}

// dropInternalPolicy clears the internal traffic policy of a service without cluster IPs. An invalid value stays, and
// validation rejects it.
func dropInternalPolicy(s *corev1.Service) {
	if p := s.Spec.InternalTrafficPolicy; !hasClusterIP(s) && p != nil && slices.Contains(internalPolicies, *p) {
		s.Spec.InternalTrafficPolicy = nil
	}
}
