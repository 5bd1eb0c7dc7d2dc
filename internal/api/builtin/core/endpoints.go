//lint:file-ignore SA1019 deprecated fields are still served

package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/equal"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func endpoints(d Deps) *engine.Resource {
	version := engine.VersionOf[corev1.Endpoints, corev1.EndpointsList](v1, defaultEndpoints)
	return &engine.Resource{
		Plural: "endpoints", Kind: "Endpoints",
		ShortNames: []string{"ep"},
		Namespaced: true,
		Prefix:     "services/endpoints",
		Versions:   only(version),
		Rules: engine.Typed[*corev1.Endpoints]{
			CreateOnUpdate: true,
			Validate: func(_ context.Context, ep *corev1.Endpoints) field.ErrorList {
				return validateEndpoints(ep, nil, d.sloppy())
			},
			Warn: warnEndpoints,
			ValidateUpdate: func(_ context.Context, ep, old *corev1.Endpoints) field.ErrorList {
				return append(rules.ObjectMetaUpdate(&ep.ObjectMeta, &old.ObjectMeta), validateEndpoints(ep, old, d.sloppy())...)
			},
		}.Rules(),
		Table: endpointsTable(),
	}
}

func defaultEndpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for j := range e.Subsets[i].Ports {
			rules.Default(&e.Subsets[i].Ports[j].Protocol, corev1.ProtocolTCP)
		}
	}
}

// validateEndpoints accepts unchanged subsets: many were written before there was validation.
func validateEndpoints(ep, old *corev1.Endpoints, sloppy bool) field.ErrorList {
	e := rules.At(nil)
	e.Add(rules.ObjectMeta(&ep.ObjectMeta, true, rules.Subdomain))
	subsets := rules.At(field.NewPath("subsets")).Sloppy(sloppy)
	for i := range ep.Subsets {
		endpointSubset(&ep.Subsets[i], subsets.Item(i))
	}
	if list := subsets.List(); len(list) > 0 && (old == nil || !equal.Objects(&ep.Subsets, &old.Subsets)) {
		e.Add(list)
	}
	return e.List()
}

func endpointSubset(s *corev1.EndpointSubset, e rules.Errors) {
	if len(s.Addresses) == 0 && len(s.NotReadyAddresses) == 0 {
		e.Required("must specify `addresses` or `notReadyAddresses`")
	}
	for i := range s.Addresses {
		endpointAddress(&s.Addresses[i], e.Field("addresses").Item(i))
	}
	for i := range s.NotReadyAddresses {
		endpointAddress(&s.NotReadyAddresses[i], e.Field("notReadyAddresses").Item(i))
	}
	for i := range s.Ports {
		p, item := &s.Ports[i], e.Field("ports").Item(i)
		if p.Name != "" {
			item.DNSLabel("name", p.Name)
		} else if len(s.Ports) > 1 {
			item.Field("name").Required("")
		}
		item.Port("port", p.Port)
		rules.RequiredOneOf(item, "protocol", p.Protocol, rules.Protocols)
		if p.AppProtocol != nil {
			item.LabelKey("appProtocol", *p.AppProtocol)
		}
	}
}

func endpointAddress(a *corev1.EndpointAddress, e rules.Errors) {
	e.Field("ip").IP(a.IP, nil)
	e.Field("ip").EndpointIP(a.IP)
	if a.Hostname != "" {
		e.DNSLabel("hostname", a.Hostname)
	}
	if a.NodeName != nil {
		e.Name("nodeName", *a.NodeName, rules.Subdomain)
	}
}

// warnEndpoints ignores the endpoints controller's writes, which are correct and frequent.
func warnEndpoints(_ context.Context, ep, _ *corev1.Endpoints) []string {
	if ep.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil
	}
	var out []string
	for i, s := range ep.Subsets {
		at := field.NewPath("subsets").Index(i)
		for j, a := range s.Addresses {
			out = append(out, rules.WarnIP(at.Child("addresses").Index(j).Child("ip"), a.IP)...)
		}
		for j, a := range s.NotReadyAddresses {
			out = append(out, rules.WarnIP(at.Child("notReadyAddresses").Index(j).Child("ip"), a.IP)...)
		}
	}
	return out
}
