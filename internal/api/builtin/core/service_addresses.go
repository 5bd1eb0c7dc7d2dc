package core

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// The addresses of a service are clusterIPs, one for each of ipFamilies, in the same order; clusterIP is the first of
// them, for older clients.

var (
	ipFamilies       = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	ipFamilyPolicies = []corev1.IPFamilyPolicy{
		corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack,
	}
)

// validateAddresses checks that addresses, families and the family policy agree.
func validateAddresses(s, old *corev1.Service, sloppy bool) field.ErrorList {
	if !hasClusterIP(s) {
		return nil
	}
	e := rules.At(field.NewPath("spec")).Sloppy(sloppy)
	spec, ips := &s.Spec, e.Field("clusterIPs")
	switch {
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		ips.Required("")
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		ips.Invalid(spec.ClusterIPs, "first value must match `clusterIP`")
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		ips.Invalid(spec.ClusterIPs, "must be empty where clusterIP is")
	}
	for i, f := range spec.IPFamilies {
		item := e.Field("ipFamilies").Item(i)
		if !slices.Contains(ipFamilies, f) {
			item.AddError(field.NotSupported(item.Path(), f, ipFamilies))
		}
		if slices.Contains(spec.IPFamilies[:i], f) {
			item.Duplicate(f)
		}
	}
	if spec.IPFamilyPolicy != nil {
		rules.OneOf(e, "ipFamilyPolicy", *spec.IPFamilyPolicy, ipFamilyPolicies)
	}
	var before []string
	if old != nil {
		before = old.Spec.ClusterIPs
	}
	parsed := wellFormedAddresses(spec.ClusterIPs, before, ips)
	if len(spec.ClusterIPs) > 2 {
		ips.Invalid(spec.ClusterIPs, "may hold up to 2 addresses")
	}
	if parsed {
		addressFamilies(s, ips)
	}
	return e.List()
}

// wellFormedAddresses reports invalid addresses; "None" is valid if it is the only one.
func wellFormedAddresses(list, before []string, e rules.Errors) bool {
	ok := true
	for i, ip := range list {
		if i == 0 && ip == corev1.ClusterIPNone {
			if len(list) > 1 {
				e.Invalid(list, "'None' must be the first and only value")
				ok = false
			}
			continue
		}
		one := e.Item(i).Apart()
		one.IP(ip, before)
		ok = ok && len(one.List()) == 0
		e.Add(one.List())
	}
	return ok
}

// addressFamilies checks that the addresses belong to the families.
func addressFamilies(s *corev1.Service, e rules.Errors) {
	list := s.Spec.ClusterIPs
	if len(list) > 1 {
		if dual, err := netutils.IsDualStackIPStrings(list); err != nil || !dual {
			e.Invalid(list, "may specify no more than one IP for each IP family")
		}
	}
	if isHeadless(s) {
		return
	}
	for i, ip := range list {
		if i < len(s.Spec.IPFamilies) && slices.Contains(ipFamilies, s.Spec.IPFamilies[i]) && s.Spec.IPFamilies[i] != familyOf(ip) {
			e.Item(i).Invalid(ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", s.Spec.IPFamilies[i], i))
		}
	}
}

func familyOf(ip string) corev1.IPFamily {
	if netutils.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// changedAddresses reports changes of addresses except for adding or removing the second one.
func changedAddresses(s, old *corev1.Service, e rules.Errors) {
	if !hasClusterIP(s) || !hasClusterIP(old) || isHeadless(s) && isHeadless(old) {
		return
	}
	ips, before, at := s.Spec.ClusterIPs, old.Spec.ClusterIPs, e.Field("clusterIPs")
	if len(ips) == len(before) {
		for i := range ips {
			if ips[i] != before[i] {
				at.Item(i).Invalid(ips, "may not change once set")
			}
		}
		return
	}
	if len(ips) == 0 {
		at.Item(0).Invalid(ips, "may not be unset")
	} else if len(before) > 0 && ips[0] != before[0] {
		at.Item(0).Invalid(ips, "may not change once set")
	}
	if len(ips) == 1 && len(before) > 1 {
		onlySingleStack(s, e)
	}
}

func onlySingleStack(s *corev1.Service, e rules.Errors) {
	if familyPolicy(s) != corev1.IPFamilyPolicySingleStack {
		e.Field("ipFamilyPolicy").Invalid(familyPolicy(s), "must be SingleStack to release the second family")
	}
}

// changedFamilies is changedAddresses for the families.
func changedFamilies(s, old *corev1.Service, e rules.Errors) {
	if !hasClusterIP(s) || !hasClusterIP(old) || isHeadless(s) || isHeadless(old) {
		return
	}
	families, before, first := s.Spec.IPFamilies, old.Spec.IPFamilies, e.Field("ipFamilies").Item(0)
	switch {
	case len(families) == len(before):
		if !slices.Equal(families, before) {
			first.Invalid(families, "may not change once set")
		}
		return
	case len(families) < len(before) && len(s.Spec.ClusterIPs) == 0:
		first.Invalid(families, "may not be unset")
	}
	if len(families) > 0 && len(before) > 0 && families[0] != before[0] {
		first.Invalid(families, "may not change once set")
	}
	if len(families) == 1 && len(before) > 1 {
		onlySingleStack(s, e)
	}
}

func familyPolicy(s *corev1.Service) corev1.IPFamilyPolicy {
	if s.Spec.IPFamilyPolicy == nil {
		return ""
	}
	return *s.Spec.IPFamilyPolicy
}
