package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// carryAllocated copies allocated values from old that the client omitted: old clients do not know all fields, and a
// PUT of a manifest has none of them.
func carryAllocated(s, old *corev1.Service) {
	spec, before := &s.Spec, &old.Spec
	if hasClusterIP(s) && hasClusterIP(old) {
		rules.Default(&spec.ClusterIP, before.ClusterIP)
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = slices.Clone(before.ClusterIPs)
		}
	}
	if wantsNodePorts(s) && wantsNodePorts(old) {
		carryNodePorts(s, old)
	}
	if hasHealthPort(s) && hasHealthPort(old) {
		rules.Default(&spec.HealthCheckNodePort, before.HealthCheckNodePort)
	}
}

// wantsNodePorts reports whether node ports are allocated for ports that specify none.
func wantsNodePorts(s *corev1.Service) bool {
	allocate := s.Spec.AllocateLoadBalancerNodePorts
	return s.Spec.Type == corev1.ServiceTypeNodePort ||
		s.Spec.Type == corev1.ServiceTypeLoadBalancer && (allocate == nil || *allocate)
}

// carryNodePorts matches ports by name. It does not copy a node port that the client gave to another port.
func carryNodePorts(s, old *corev1.Service) {
	named := nodePorts(s)
	before := map[string]int32{}
	for i := range old.Spec.Ports {
		before[old.Spec.Ports[i].Name] = old.Spec.Ports[i].NodePort
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if port := before[p.Name]; p.NodePort == 0 && !slices.Contains(named, port) {
			p.NodePort = port
		}
	}
}

// alignAddresses makes clusterIP and clusterIPs agree if the client changed only one of them, perhaps because it knows
// only that one. old is nil on create.
func alignAddresses(s, old *corev1.Service) {
	spec := &s.Spec
	if old == nil {
		if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
		return
	}
	before := &old.Spec
	if len(spec.ClusterIPs) == 0 && spec.ClusterIP == before.ClusterIP {
		spec.ClusterIPs = slices.Clone(before.ClusterIPs)
	}
	if spec.ClusterIP == before.ClusterIP || !slices.Equal(spec.ClusterIPs, before.ClusterIPs) {
		return
	}
	if spec.ClusterIP == "" {
		spec.ClusterIPs = nil
	} else {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// keepsFamilies reports whether an update of a service that prefers two families changes nothing about them. Such a service
// keeps one family if the cluster had only one when it was created.
func keepsFamilies(s, old *corev1.Service) bool {
	return old != nil && s.Spec.Type == old.Spec.Type && hasClusterIP(s) &&
		slices.Contains(serviceTypes, s.Spec.Type) &&
		familyPolicy(s) == corev1.IPFamilyPolicyPreferDualStack &&
		(old.Spec.IPFamilyPolicy == nil || familyPolicy(old) == corev1.IPFamilyPolicyPreferDualStack) &&
		slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(s.Spec.IPFamilies, old.Spec.IPFamilies)
}

// chooseFamilies sets the address families of a service.
func (a allocator) chooseFamilies(s, old *corev1.Service) error {
	if !hasClusterIP(s) || keepsFamilies(s, old) {
		return nil
	}
	spec := &s.Spec
	// Headless without a selector: the server does not manage the addresses.
	foreign := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		if foreign {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		if old != nil && old.Spec.IPFamilyPolicy != nil {
			policy = *old.Spec.IPFamilyPolicy
		}
		spec.IPFamilyPolicy = &policy
	}
	if errs := validateAddresses(s, old, a.sloppy); len(errs) > 0 {
		return invalidService(s, errs)
	}
	e := rules.At(field.NewPath("spec"))
	changeOfPolicy(s, old, e)
	a.familiesOfAddresses(s, e)
	if errs := e.List(); len(errs) > 0 {
		return invalidService(s, errs)
	}
	if !foreign {
		a.checkConfigured(s, e)
		if errs := e.List(); len(errs) > 0 {
			return invalidService(s, errs)
		}
	}
	configured := a.addresses.Families()
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = configured[:1:1]
	}
	if len(spec.IPFamilies) == 1 && *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack && (foreign || len(configured) == 2) {
		spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
	}
	return nil
}

// changeOfPolicy releases the second family of a service that becomes SingleStack, if the client did not remove it.
// Otherwise it checks that the policy fits the number of families.
func changeOfPolicy(s, old *corev1.Service, e rules.Errors) {
	spec, single := &s.Spec, familyPolicy(s) == corev1.IPFamilyPolicySingleStack
	if old != nil && single {
		if len(spec.ClusterIPs) > 1 && slices.Equal(spec.ClusterIPs, old.Spec.ClusterIPs) {
			spec.ClusterIPs = spec.ClusterIPs[:1]
		}
		if len(spec.IPFamilies) > 1 && slices.Equal(spec.IPFamilies, old.Spec.IPFamilies) {
			spec.IPFamilies = spec.IPFamilies[:1]
		}
	}
	if old != nil && !single {
		if n := len(spec.ClusterIPs); n > 0 && n < len(old.Spec.ClusterIPs) {
			onlySingleStack(s, e)
		}
		if n := len(spec.IPFamilies); n > 0 && n < len(old.Spec.IPFamilies) {
			onlySingleStack(s, e)
		}
	}
	if single && (len(spec.ClusterIPs) == 2 || len(spec.IPFamilies) == 2) {
		e.Field("ipFamilyPolicy").Invalid(familyPolicy(s), "must be RequireDualStack or PreferDualStack for two families")
	}
}

// familiesOfAddresses adds the families of given addresses to the specified ones.
func (a allocator) familiesOfAddresses(s *corev1.Service, e rules.Errors) {
	for i, ip := range s.Spec.ClusterIPs {
		if ip == corev1.ClusterIPNone {
			return
		}
		if i < len(s.Spec.IPFamilies) {
			continue
		}
		if f := familyOf(ip); slices.Contains(a.addresses.Families(), f) {
			s.Spec.IPFamilies = append(s.Spec.IPFamilies, f)
		} else {
			e.Field("clusterIPs").Item(i).Invalid(ip, string(f)+" is not configured on this cluster")
		}
	}
}

func (a allocator) checkConfigured(s *corev1.Service, e rules.Errors) {
	configured := a.addresses.Families()
	if familyPolicy(s) == corev1.IPFamilyPolicyRequireDualStack && len(configured) < 2 {
		e.Field("ipFamilyPolicy").Invalid(familyPolicy(s), "this cluster is not configured for dual-stack services")
	}
	for i, f := range s.Spec.IPFamilies {
		if !slices.Contains(configured, f) {
			e.Field("ipFamilies").Item(i).Invalid(f, "not configured on this cluster")
		}
	}
}

// readFamilies returns old with families and policy, which services from before dual-stack do not have.
func (a allocator) readFamilies(old *corev1.Service) *corev1.Service {
	if !hasClusterIP(old) || len(old.Spec.IPFamilies) > 0 {
		return old
	}
	s := old.DeepCopy()
	alignAddresses(s, nil)
	primary := a.addresses.Families()[0]
	switch {
	case s.Spec.ClusterIP != corev1.ClusterIPNone:
		for _, ip := range s.Spec.ClusterIPs {
			s.Spec.IPFamilies = append(s.Spec.IPFamilies, familyOf(ip))
		}
	case len(s.Spec.Selector) == 0:
		s.Spec.IPFamilies = []corev1.IPFamily{primary, otherFamily(primary)}
	default:
		s.Spec.IPFamilies = []corev1.IPFamily{primary}
	}
	policy := corev1.IPFamilyPolicySingleStack
	if len(s.Spec.IPFamilies) == 2 {
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	s.Spec.IPFamilyPolicy = &policy
	return s
}

func invalidService(s *corev1.Service, errs field.ErrorList) error {
	return apierrors.NewInvalid(v1.WithKind("Service").GroupKind(), s.Name, errs)
}
