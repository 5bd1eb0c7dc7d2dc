package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func services(d Deps) *engine.Resource {
	a := allocator{d.Addresses, d.NodePorts, d.sloppy()}
	return &engine.Resource{
		Plural: "services", Kind: "Service",
		ShortNames:    []string{"svc"},
		Categories:    []string{"all"},
		Namespaced:    true,
		Prefix:        "services/specs",
		ReturnDeleted: true,
		Versions:      only(engine.VersionOf[corev1.Service, corev1.ServiceList](v1, defaultService)),
		Rules: engine.Typed[*corev1.Service]{
			StatusApart:    true,
			CreateOnUpdate: true,
			BeginCreate:    a.beginCreate,
			PrepareCreate: func(_ context.Context, s *corev1.Service) {
				dropInternalPolicy(s)
			},
			Validate:    func(_ context.Context, s *corev1.Service) field.ErrorList { return d.validateServiceCreate(s) },
			Warn:        func(_ context.Context, s, _ *corev1.Service) []string { return warnService(s) },
			BeginUpdate: a.beginUpdate,
			PrepareUpdate: func(_ context.Context, s, old *corev1.Service) {
				dropForType(s, old)
				dropInternalPolicy(s)
			},
			ValidateUpdate: func(_ context.Context, s, old *corev1.Service) field.ErrorList {
				return validateServiceUpdate(s, old, d.sloppy())
			},
			Deleted: a.deleted,
		}.Rules(),
		Subresources: []*engine.Subresource{
			proxySubresource("ServiceProxyOptions", func(path string) runtime.Object { return &corev1.ServiceProxyOptions{Path: path} }),
			engine.Status(engine.Typed[*corev1.Service]{
				ValidateUpdate: func(_ context.Context, s, old *corev1.Service) field.ErrorList {
					return append(rules.ObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta), loadBalancerStatus(s, old, d.sloppy())...)
				},
				Warn: func(_ context.Context, s, _ *corev1.Service) []string { return warnServiceStatus(s) },
			}),
		},
		Fields: engine.Fields(func(s *corev1.Service) fields.Set {
			return fields.Set{"spec.clusterIP": s.Spec.ClusterIP, "spec.type": string(s.Spec.Type)}
		}),
		Table: serviceTable(),
	}
}

func defaultService(svc *corev1.Service) {
	s := &svc.Spec
	rules.Default(&s.SessionAffinity, corev1.ServiceAffinityNone)
	switch c := s.SessionAffinityConfig; s.SessionAffinity {
	case corev1.ServiceAffinityNone:
		s.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			seconds := corev1.DefaultClientIPServiceAffinitySeconds
			s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		}
	}
	rules.Default(&s.Type, corev1.ServiceTypeClusterIP)
	for i := range s.Ports {
		p := &s.Ports[i]
		rules.Default(&p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if isExternal(svc) {
		rules.Default(&s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	switch s.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		rules.DefaultPtr(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if s.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	rules.DefaultPtr(&s.AllocateLoadBalancerNodePorts, true)
	for i := range svc.Status.LoadBalancer.Ingress {
		if in := &svc.Status.LoadBalancer.Ingress[i]; in.IP != "" {
			rules.DefaultPtr(&in.IPMode, corev1.LoadBalancerIPModeVIP)
		}
	}
}

// isExternal reports whether a service is reachable from outside of the cluster.
func isExternal(s *corev1.Service) bool {
	switch s.Spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeClusterIP:
		return len(s.Spec.ExternalIPs) > 0
	}
	return false
}

// hasClusterIP reports whether a service of this type has cluster IPs; "None" counts.
func hasClusterIP(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

// isHeadless reports whether a service has the cluster IP "None".
func isHeadless(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// hasNodePorts reports whether a service of this type has node ports.
func hasNodePorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// hasHealthPort reports whether load balancers ask nodes whether they have pods of a service.
func hasHealthPort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}
