package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

var (
	serviceTypes = []corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort,
	}
	sessionAffinities = []corev1.ServiceAffinity{corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone}
	externalPolicies  = []corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal}
	internalPolicies  = []corev1.ServiceInternalTrafficPolicy{corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal}
	distributions     = []string{
		corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode,
	}
	ipModes = []corev1.LoadBalancerIPMode{corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP}
)

func (d Deps) validateServiceCreate(s *corev1.Service) field.ErrorList {
	name := rules.Label
	if d.Pods.Gates.Off(features.RelaxedServiceNameValidation) {
		name = rules.LabelOfLetter
	}
	return append(rules.ObjectMeta(&s.ObjectMeta, true, name), validateService(s, nil, d.sloppy())...)
}

func validateServiceUpdate(s, old *corev1.Service, sloppy bool) field.ErrorList {
	e := rules.At(field.NewPath("spec"))
	e.Add(rules.ObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta))
	changedAddresses(s, old, e)
	changedFamilies(s, old, e)
	if before := &old.Spec; s.Spec.Type == corev1.ServiceTypeLoadBalancer && before.Type == s.Spec.Type {
		if a, b := s.Spec.LoadBalancerClass, before.LoadBalancerClass; (a == nil) != (b == nil) || a != nil && *a != *b {
			e.Field("loadBalancerClass").Invalid("", "may not change once set")
		}
	}
	if hasHealthPort(s) && hasHealthPort(old) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		e.Field("healthCheckNodePort").Forbidden("field is immutable")
	}
	e.Add(validateService(s, old, sloppy))
	return e.List()
}

// validateService validates a service; old is nil on create.
func validateService(s, old *corev1.Service, sloppy bool) field.ErrorList {
	e := rules.At(field.NewPath("spec")).Sloppy(sloppy)
	hints, hasHints := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	mode, hasMode := s.Annotations[corev1.AnnotationTopologyMode]
	if hasHints && hasMode && hints != mode {
		e.Elsewhere(annotationPath(corev1.AnnotationTopologyMode)).Invalid(mode, "must match the older annotation where both are set")
	}
	rules.RequiredOneOf(e, "type", s.Spec.Type, serviceTypes)
	serviceByType(s, e)
	checkPorts(s, e.Field("ports"))
	e.Labels("selector", s.Spec.Selector)
	sessionAffinity(&s.Spec, e)
	e.Add(validateAddresses(s, old, sloppy))
	externalIPs(s, old, e)
	loadBalancerRanges(s, old, e)
	loadBalancer(s, e)
	trafficPolicies(s, e)
	return e.List()
}

// serviceByType validates required and forbidden fields of each type of service.
func serviceByType(s *corev1.Service, e rules.Errors) {
	headless := isHeadless(s)
	if len(s.Spec.Ports) == 0 && !headless && hasClusterIP(s) {
		e.Field("ports").Required("")
	}
	if headless && hasNodePorts(s) {
		e.Field("clusterIPs").Item(0).Invalid(corev1.ClusterIPNone, "may not be set to 'None' for "+string(s.Spec.Type)+" services")
	}
	if hasClusterIP(s) {
		return
	}
	if len(s.Spec.ClusterIPs) > 0 {
		e.Field("clusterIPs").Forbidden("may not be set for ExternalName services")
	}
	if len(s.Spec.IPFamilies) > 0 {
		e.Field("ipFamilies").Forbidden("may not be set for ExternalName services")
	}
	if s.Spec.IPFamilyPolicy != nil {
		e.Field("ipFamilyPolicy").Forbidden("may not be set for ExternalName services")
	}
	if name := strings.TrimSuffix(s.Spec.ExternalName, "."); name != "" {
		e.DNSSubdomain("externalName", name)
	} else {
		e.Field("externalName").Required("")
	}
}

func checkPorts(s *corev1.Service, e rules.Errors) {
	type number struct {
		protocol corev1.Protocol
		port     int32
	}
	names, ports, nodePorts := map[string]bool{}, map[number]bool{}, map[number]bool{}
	for i := range s.Spec.Ports {
		p, item := &s.Spec.Ports[i], e.Item(i)
		if p.Name != "" {
			item.DNSLabel("name", p.Name)
			if names[p.Name] {
				item.Field("name").Duplicate(p.Name)
			}
			names[p.Name] = true
		} else if len(s.Spec.Ports) > 1 {
			item.Field("name").Required("")
		}
		item.Port("port", p.Port)
		rules.RequiredOneOf(item, "protocol", p.Protocol, rules.Protocols)
		item.PortOrName("targetPort", p.TargetPort)
		if p.AppProtocol != nil {
			item.LabelKey("appProtocol", *p.AppProtocol)
		}
		if key := (number{p.Protocol, p.Port}); ports[key] {
			item.Duplicate(fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		} else {
			ports[key] = true
		}
		if p.NodePort == 0 {
			continue
		}
		if s.Spec.Type == corev1.ServiceTypeClusterIP {
			item.Field("nodePort").Forbidden("may not be used when `type` is 'ClusterIP'")
		}
		if key := (number{p.Protocol, p.NodePort}); nodePorts[key] {
			item.Field("nodePort").Duplicate(p.NodePort)
		} else {
			nodePorts[key] = true
		}
	}
}

const forClientIP = "when session affinity type is ClientIP"

func sessionAffinity(s *corev1.ServiceSpec, e rules.Errors) {
	rules.RequiredOneOf(e, "sessionAffinity", s.SessionAffinity, sessionAffinities)
	c, at := s.SessionAffinityConfig, e.Field("sessionAffinityConfig")
	switch {
	case s.SessionAffinity == corev1.ServiceAffinityNone && c != nil:
		at.Forbidden("must not be set when session affinity is None")
	case s.SessionAffinity != corev1.ServiceAffinityClientIP:
	case c == nil:
		at.Required(forClientIP)
	case c.ClientIP == nil:
		at.Field("clientIP").Required(forClientIP)
	case c.ClientIP.TimeoutSeconds == nil:
		at.Field("clientIP").Field("timeoutSeconds").Required(forClientIP)
	case *c.ClientIP.TimeoutSeconds <= 0 || *c.ClientIP.TimeoutSeconds > 24*60*60:
		at.Field("clientIP").Field("timeoutSeconds").Invalid(*c.ClientIP.TimeoutSeconds, "must be greater than 0 and less than 86400")
	}
}

func externalIPs(s, old *corev1.Service, e rules.Errors) {
	var before []string
	if old != nil {
		before = old.Spec.ExternalIPs
	}
	for i, ip := range s.Spec.ExternalIPs {
		one := e.Field("externalIPs").Item(i).Apart()
		one.IP(ip, before)
		if len(one.List()) == 0 {
			one.EndpointIP(ip)
		}
		e.Add(one.List())
	}
}

// loadBalancerRanges validates the allowed source ranges of a load balancer: the field, or the annotation that preceded
// it.
func loadBalancerRanges(s, old *corev1.Service, e rules.Errors) {
	const annotation = corev1.AnnotationLoadBalancerSourceRangesKey
	at, ranges, set := e.Field("LoadBalancerSourceRanges"), s.Spec.LoadBalancerSourceRanges, true
	var before []string
	if len(ranges) > 0 {
		if old != nil {
			before = trimmed(old.Spec.LoadBalancerSourceRanges)
		}
		for i, r := range trimmed(ranges) {
			at.Item(i).CIDR(r, before)
		}
	} else if text, found := s.Annotations[annotation]; found {
		at = e.Elsewhere(annotationPath(annotation))
		if text = strings.TrimSpace(text); text != "" && (old == nil || old.Annotations[annotation] != s.Annotations[annotation]) {
			for _, r := range trimmed(strings.Split(text, ",")) {
				at.CIDR(r, nil)
			}
		}
	} else {
		set = false
	}
	if set && s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		at.Forbidden("may only be used when `type` is 'LoadBalancer'")
	}
}

func trimmed(list []string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = strings.TrimSpace(v)
	}
	return out
}

func loadBalancer(s *corev1.Service, e rules.Errors) {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		if s.Spec.AllocateLoadBalancerNodePorts == nil {
			e.Elsewhere(field.NewPath("allocateLoadBalancerNodePorts")).Required("")
		}
		if s.Spec.LoadBalancerClass != nil {
			e.LabelKey("loadBalancerClass", *s.Spec.LoadBalancerClass)
		}
		return
	}
	if s.Spec.AllocateLoadBalancerNodePorts != nil {
		e.Field("allocateLoadBalancerNodePorts").Forbidden("may only be used when `type` is 'LoadBalancer'")
	}
	if s.Spec.LoadBalancerClass != nil {
		e.Field("loadBalancerClass").Forbidden("may only be used when `type` is 'LoadBalancer'")
	}
}

func trafficPolicies(s *corev1.Service, e rules.Errors) {
	spec := &s.Spec
	if isExternal(s) {
		rules.RequiredOneOf(e, "externalTrafficPolicy", spec.ExternalTrafficPolicy, externalPolicies)
	} else if spec.ExternalTrafficPolicy != "" {
		e.Field("externalTrafficPolicy").Invalid(spec.ExternalTrafficPolicy, "may only be set for externally-accessible services")
	}
	switch port := spec.HealthCheckNodePort; {
	case !hasHealthPort(s):
		if port != 0 {
			e.Field("healthCheckNodePort").Invalid(port, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
		}
	case port == 0:
		e.Field("healthCheckNodePort").Required("")
	default:
		e.Port("healthCheckNodePort", port)
	}
	if p := spec.InternalTrafficPolicy; p != nil {
		rules.OneOf(e, "internalTrafficPolicy", *p, internalPolicies)
	} else if spec.Type == corev1.ServiceTypeClusterIP || hasNodePorts(s) {
		e.Field("internalTrafficPolicy").Required("")
	}
	if d := spec.TrafficDistribution; d != nil {
		rules.OneOf(e, "trafficDistribution", *d, distributions)
	}
}

// loadBalancerStatus validates the addresses of a load balancer.
func loadBalancerStatus(s, old *corev1.Service, sloppy bool) field.ErrorList {
	e := rules.At(field.NewPath("status", "loadBalancer", "ingress")).Sloppy(sloppy)
	list := s.Status.LoadBalancer.Ingress
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		if len(list) > 0 {
			e.Forbidden("may only be used when `spec.type` is 'LoadBalancer'")
		}
		return e.List()
	}
	var before []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			before = append(before, in.IP)
		}
	}
	for i, in := range list {
		item := e.Item(i)
		switch {
		case in.IP == "":
			if in.IPMode != nil {
				item.Field("ipMode").Forbidden("may not be specified when `ip` is not set")
			}
		case in.IPMode == nil:
			item.Field("ipMode").Required("must be specified when `ip` is set")
		default:
			rules.OneOf(item, "ipMode", *in.IPMode, ipModes)
		}
		if in.IP != "" {
			item.Field("ip").IP(in.IP, before)
		}
		if in.Hostname != "" {
			item.Field("hostname").Messages(in.Hostname, validation.IsDNS1123Subdomain(in.Hostname))
			if netutils.ParseIPSloppy(in.Hostname) != nil {
				item.Field("hostname").Invalid(in.Hostname, "must be a DNS name, not an IP address")
			}
		}
	}
	return e.List()
}

func warnServiceStatus(s *corev1.Service) []string {
	var out []string
	for i, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			out = append(out, rules.WarnIP(field.NewPath("status", "loadBalancer", "ingress").Index(i), in.IP)...)
		}
	}
	return out
}

func warnService(s *corev1.Service) []string {
	var out []string
	spec, path := &s.Spec, field.NewPath("spec")
	external := spec.Type == corev1.ServiceTypeExternalName
	headless := spec.Type == corev1.ServiceTypeClusterIP && spec.ClusterIP == corev1.ClusterIPNone
	for _, w := range []struct {
		is   bool
		text string
	}{
		{hasKey(s.Annotations, corev1.DeprecatedAnnotationTopologyAwareHints), fmt.Sprintf("annotation %s is deprecated, please use %s instead",
			corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode)},
		{headless && spec.LoadBalancerIP != "", "spec.loadBalancerIP is ignored for headless services"},
		{headless && len(spec.ExternalIPs) > 0, "spec.externalIPs is ignored for headless services"},
		{headless && spec.SessionAffinity != corev1.ServiceAffinityNone, "spec.SessionAffinity is ignored for headless services"},
		{!headless && !external && len(spec.ExternalIPs) > 0, "spec.externalIPs is deprecated and may no longer be implemented in some clusters"},
		{external && len(spec.ExternalIPs) > 0, `spec.externalIPs is ignored when spec.type is "ExternalName"`},
		{!external && spec.ExternalName != "", `spec.externalName is ignored when spec.type is not "ExternalName"`},
		{spec.TrafficDistribution != nil && *spec.TrafficDistribution == corev1.ServiceTrafficDistributionPreferClose,
			`spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"`},
	} {
		if w.is {
			out = append(out, w.text)
		}
	}
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		for i, ip := range spec.ClusterIPs {
			out = append(out, rules.WarnIP(path.Child("clusterIPs").Index(i), ip)...)
		}
	}
	for i, ip := range spec.ExternalIPs {
		out = append(out, rules.WarnIP(path.Child("externalIPs").Index(i), ip)...)
	}
	if spec.LoadBalancerIP != "" {
		out = append(out, rules.WarnIP(path.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, r := range spec.LoadBalancerSourceRanges {
		out = append(out, rules.WarnCIDR(path.Child("loadBalancerSourceRanges").Index(i), r)...)
	}
	return slices.Compact(out)
}
