package discovery

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/kanzen-io/kanzen/internal/object/equal"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

const (
	maxEndpoints      = 1000
	maxPorts          = 20000
	maxAddresses      = 100
	maxTopologyLabels = 16
	maxHints          = 8
)

func (d Deps) validate(_ context.Context, s *discoveryv1.EndpointSlice) field.ErrorList {
	return append(slice(s), d.endpoints(s)...)
}

func (d Deps) validateUpdate(_ context.Context, s, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, slice(s)...)
	// Stored endpoints stay valid while they do not change.
	if !equal.Objects(&s.Endpoints, &old.Endpoints) {
		errs = append(errs, d.endpoints(s)...)
	}
	e := rules.At(nil)
	e.Fixed("addressType", s.AddressType, old.AddressType)
	return append(errs, e.List()...)
}

func slice(s *discoveryv1.EndpointSlice) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&s.ObjectMeta, true, rules.Subdomain))
	rules.RequiredOneOf(e, "addressType", s.AddressType, []discoveryv1.AddressType{
		discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6,
	})
	ports(s.Ports, e.Elsewhere(field.NewPath("ports")))
	return e.List()
}

func ports(list []discoveryv1.EndpointPort, e rules.Errors) {
	if len(list) > maxPorts {
		e.AddError(field.TooMany(e.Path(), len(list), maxPorts))
		return
	}
	seen := map[string]bool{}
	for i := range list {
		p, at := &list[i], e.Item(i)
		if *p.Name != "" {
			at.DNSLabel("name", *p.Name)
		}
		if seen[*p.Name] {
			at.Field("name").Duplicate(*p.Name)
		}
		seen[*p.Name] = true
		if p.Protocol == nil {
			at.Field("protocol").Required("")
		} else {
			rules.OneOf(at, "protocol", *p.Protocol, rules.Protocols)
		}
		if p.AppProtocol != nil {
			at.Field("appProtocol").QualifiedName(*p.AppProtocol)
		}
	}
}

func (d Deps) endpoints(s *discoveryv1.EndpointSlice) field.ErrorList {
	e := rules.At(field.NewPath("endpoints")).Sloppy(d.Gates.Off(features.StrictIPCIDRValidation))
	if n := len(s.Endpoints); n > maxEndpoints {
		e.AddError(field.TooMany(e.Path(), n, maxEndpoints))
		return e.List()
	}
	for i := range s.Endpoints {
		endpoint(&s.Endpoints[i], s.AddressType, e.Item(i))
	}
	return e.List()
}

func endpoint(p *discoveryv1.Endpoint, t discoveryv1.AddressType, e rules.Errors) {
	addresses(p.Addresses, t, e.Field("addresses"))
	if p.NodeName != nil {
		e.Name("nodeName", *p.NodeName, rules.Subdomain)
	}
	topology := e.Field("deprecatedTopology")
	if n := len(p.DeprecatedTopology); n > maxTopologyLabels {
		topology.AddError(field.TooMany(topology.Path(), n, maxTopologyLabels))
	}
	e.Labels("deprecatedTopology", p.DeprecatedTopology)
	if _, found := p.DeprecatedTopology[corev1.LabelTopologyZone]; found {
		topology.Key(corev1.LabelTopologyZone).Forbidden("has a field of its own")
	}
	if p.Hostname != nil {
		e.DNSLabel("hostname", *p.Hostname)
	}
	if p.Hints != nil {
		hints(p.Hints, e.Field("hints"))
	}
}

func addresses(list []string, t discoveryv1.AddressType, e rules.Errors) {
	switch {
	case len(list) == 0:
		e.Required("")
	case len(list) > maxAddresses:
		e.AddError(field.TooMany(e.Path(), len(list), maxAddresses))
	}
	for i, a := range list {
		at := e.Item(i)
		var faults field.ErrorList
		switch t {
		case discoveryv1.AddressTypeIPv4:
			one := at.Apart()
			one.IP(a, nil)
			faults = one.List()
		case discoveryv1.AddressTypeIPv6:
			faults = validation.IsValidIP(at.Path(), a)
		case discoveryv1.AddressTypeFQDN:
			e.Add(validation.IsFullyQualifiedDomainName(at.Path(), a))
			continue
		default:
			continue
		}
		if len(faults) > 0 {
			e.Add(faults)
			continue
		}
		// A wrong family is reported at the list.
		if netutils.IsIPv6String(a) != (t == discoveryv1.AddressTypeIPv6) {
			e.Invalid(a, "must be of the IP family that addressType names")
		}
		at.EndpointIP(a)
	}
}

func hints(h *discoveryv1.EndpointHints, e rules.Errors) {
	zones, nodes := e.Field("forZones"), e.Field("forNodes")
	if n := len(h.ForZones); n > maxHints {
		zones.AddError(field.TooMany(zones.Path(), n, maxHints))
		return
	}
	var seen []string
	for i, z := range h.ForZones {
		at := zones.Item(i).Field("name")
		if slices.Contains(seen, z.Name) {
			at.Duplicate(z.Name)
		}
		seen = append(seen, z.Name)
		at.Messages(z.Name, validation.IsValidLabelValue(z.Name))
	}
	if n := len(h.ForNodes); n > maxHints {
		nodes.AddError(field.TooMany(nodes.Path(), n, maxHints))
		return
	}
	seen = nil
	for i, n := range h.ForNodes {
		if slices.Contains(seen, n.Name) {
			nodes.Item(i).Field("name").Duplicate(n.Name)
		}
		seen = append(seen, n.Name)
		nodes.Item(i).Name("name", n.Name, rules.Subdomain)
	}
}
