package networking

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kanzen-io/kanzen/internal/object/rules"
)

// policyOptions relax rules for stored policies.
type policyOptions struct {
	allowInvalidSelector bool
	oldCIDRs             []string
	sloppy               bool
}

func (d Deps) validateNetworkPolicy(_ context.Context, p *networkingv1.NetworkPolicy) field.ErrorList {
	errs := rules.ObjectMeta(&p.ObjectMeta, true, rules.Subdomain)
	return append(errs, networkPolicy(&p.Spec, policyOptions{sloppy: d.sloppy()})...)
}

func (d Deps) validateNetworkPolicyUpdate(_ context.Context, p, old *networkingv1.NetworkPolicy) field.ErrorList {
	o := policyOptions{sloppy: d.sloppy(), allowInvalidSelector: rules.InvalidLabelSelector(&old.Spec.PodSelector)}
	collect := func(peers []networkingv1.NetworkPolicyPeer) {
		for i := range peers {
			if b := peers[i].IPBlock; b != nil {
				o.oldCIDRs = append(append(o.oldCIDRs, b.CIDR), b.Except...)
			}
		}
	}
	for i := range old.Spec.Ingress {
		collect(old.Spec.Ingress[i].From)
	}
	for i := range old.Spec.Egress {
		collect(old.Spec.Egress[i].To)
	}
	errs := rules.ObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta)
	return append(errs, networkPolicy(&p.Spec, o)...)
}

func networkPolicy(s *networkingv1.NetworkPolicySpec, o policyOptions) field.ErrorList {
	e := rules.At(specPath).Sloppy(o.sloppy)
	e.LabelSelector("podSelector", &s.PodSelector, o.allowInvalidSelector)
	for i := range s.Ingress {
		policyRule(s.Ingress[i].Ports, s.Ingress[i].From, "from", e.Field("ingress").Item(i), o)
	}
	for i := range s.Egress {
		policyRule(s.Egress[i].Ports, s.Egress[i].To, "to", e.Field("egress").Item(i), o)
	}
	if len(s.PolicyTypes) > 2 {
		e.Field("policyTypes").Invalid(s.PolicyTypes, "may not specify more than two policyTypes")
		return e.List()
	}
	for i, t := range s.PolicyTypes {
		if t != networkingv1.PolicyTypeIngress && t != networkingv1.PolicyTypeEgress {
			e.AddError(field.NotSupported(specPath.Child("policyTypes").Index(i), t, []networkingv1.PolicyType{
				networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress,
			}))
		}
	}
	return e.List()
}

func policyRule(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, name string, e rules.Errors, o policyOptions) {
	for i := range ports {
		policyPort(&ports[i], e.Field("ports").Item(i))
	}
	for i := range peers {
		policyPeer(&peers[i], e.Field(name).Item(i), o)
	}
}

func policyPort(p *networkingv1.NetworkPolicyPort, e rules.Errors) {
	if p.Protocol != nil {
		rules.OneOf(e, "protocol", *p.Protocol, rules.Protocols)
	}
	end := e.Field("endPort")
	switch {
	case p.Port == nil:
		if p.EndPort != nil {
			end.Invalid(*p.EndPort, "may not be specified when `port` is not specified")
		}
	case p.Port.Type == intstr.Int:
		e.Port("port", p.Port.IntVal)
		if p.EndPort != nil {
			if *p.EndPort < p.Port.IntVal {
				end.Invalid(*p.EndPort, "must be greater than or equal to `port`")
			}
			e.Port("endPort", *p.EndPort)
		}
	default:
		if p.EndPort != nil {
			end.Invalid(*p.EndPort, "may not be specified when `port` is non-numeric")
		}
		e.Field("port").Messages(p.Port.StrVal, validation.IsValidPortName(p.Port.StrVal))
	}
}

func policyPeer(p *networkingv1.NetworkPolicyPeer, e rules.Errors, o policyOptions) {
	e.LabelSelector("podSelector", p.PodSelector, o.allowInvalidSelector)
	e.LabelSelector("namespaceSelector", p.NamespaceSelector, o.allowInvalidSelector)
	selects := p.PodSelector != nil || p.NamespaceSelector != nil
	switch {
	case p.IPBlock != nil:
		ipBlock(p.IPBlock, e.Field("ipBlock"), o)
		if selects {
			e.Forbidden("may not specify both ipBlock and another peer")
		}
	case !selects:
		e.Required("must specify a peer")
	}
}

func ipBlock(b *networkingv1.IPBlock, e rules.Errors, o policyOptions) {
	if !e.Present("cidr", b.CIDR) {
		return
	}
	e.Field("cidr").CIDR(b.CIDR, o.oldCIDRs)
	_, cidr, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return
	}
	size, _ := cidr.Mask.Size()
	for i, text := range b.Except {
		at := e.Field("except").Item(i)
		at.CIDR(text, o.oldCIDRs)
		_, except, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		if n, _ := except.Mask.Size(); !cidr.Contains(except.IP) || n <= size {
			at.Invalid(text, "must be a strict subset of `cidr`")
		}
	}
}

// ipAddressName is the rule for names of IPAddresses: the address in canonical form.
func ipAddressName(name string, _ bool) []string {
	var out []string
	for _, err := range validation.IsValidIP(&field.Path{}, name) {
		out = append(out, err.Detail)
	}
	return out
}

func validateIPAddress(_ context.Context, a *networkingv1.IPAddress) field.ErrorList {
	e := rules.At(specPath)
	e.Add(rules.ObjectMeta(&a.ObjectMeta, false, ipAddressName))
	r, at := a.Spec.ParentRef, e.Field("parentRef")
	if r == nil {
		at.Required("")
		return e.List()
	}
	if r.Group != "" {
		at.DNSSubdomain("group", r.Group)
	}
	at.PathSegment("resource", r.Resource)
	at.PathSegment("name", r.Name)
	if r.Namespace != "" {
		at.OptionalPathSegment("namespace", r.Namespace)
	}
	return e.List()
}

func validateIPAddressUpdate(ctx context.Context, a, old *networkingv1.IPAddress) field.ErrorList {
	e := rules.At(specPath)
	e.Add(validateIPAddress(ctx, a))
	e.Add(rules.ObjectMetaUpdate(&a.ObjectMeta, &old.ObjectMeta))
	if !apiequality.Semantic.DeepEqual(a.Spec.ParentRef, old.Spec.ParentRef) {
		e.Fixed("parentRef", a.Spec.ParentRef, old.Spec.ParentRef)
	}
	return e.List()
}

func validateServiceCIDR(_ context.Context, c *networkingv1.ServiceCIDR) field.ErrorList {
	errs := rules.ObjectMeta(&c.ObjectMeta, false, rules.Subdomain)
	return append(errs, serviceRanges(c.Spec.CIDRs)...)
}

// serviceRanges validates the address ranges of services: one, or one of each IP family.
func serviceRanges(cidrs []string) field.ErrorList {
	e := rules.At(specPath.Child("cidrs"))
	switch len(cidrs) {
	case 0:
		e.Required("at least one CIDR required")
		return e.List()
	case 1, 2:
	default:
		e.Invalid(cidrs, "may only hold up to 2 values")
		return e.List()
	}
	for i, c := range cidrs {
		e.Add(validation.IsValidCIDR(e.Path().Index(i), c))
	}
	if len(cidrs) == 2 {
		family := netutils.IPFamilyOfCIDRString(cidrs[0])
		if family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(cidrs[1]) {
			e.Invalid(cidrs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64")
		}
	}
	return e.List()
}

func validateServiceCIDRUpdate(_ context.Context, c, old *networkingv1.ServiceCIDR) field.ErrorList {
	e := rules.At(specPath.Child("cidrs"))
	e.Add(rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta))
	cidrs, oldCIDRs := c.Spec.CIDRs, old.Spec.CIDRs
	immutable := func(e rules.Errors, value any) { e.Invalid(value, apivalidation.FieldImmutableErrorMsg) }
	switch {
	case len(oldCIDRs) == len(cidrs):
		for i := range cidrs {
			if cidrs[i] != oldCIDRs[i] {
				immutable(e.Item(i), cidrs[i])
			}
		}
	case len(oldCIDRs) == 1 && len(cidrs) == 2:
		// A cluster may become dual-stack by adding a second range.
		if cidrs[0] != oldCIDRs[0] {
			immutable(e.Item(0), cidrs[0])
		}
		e.Add(serviceRanges(cidrs))
	default:
		immutable(e, cidrs)
	}
	return e.List()
}

func validateServiceCIDRStatus(_ context.Context, c, old *networkingv1.ServiceCIDR) field.ErrorList {
	return rules.ObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta)
}
