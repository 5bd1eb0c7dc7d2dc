package networking

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/rules"
)

func networkPolicies(d Deps) *engine.Resource {
	return &engine.Resource{
		Plural: "networkpolicies", Kind: "NetworkPolicy",
		ShortNames: []string{"netpol"},
		Namespaced: true,
		Versions:   []*engine.Version{engine.VersionOf[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](v1, defaultNetworkPolicy)},
		Rules: engine.Typed[*networkingv1.NetworkPolicy]{
			PrepareCreate: func(_ context.Context, p *networkingv1.NetworkPolicy) { p.Generation = 1 },
			PrepareUpdate: func(_ context.Context, p, old *networkingv1.NetworkPolicy) {
				// reflect.DeepEqual, because an empty list of rules differs from none: it denies all traffic.
				if !reflect.DeepEqual(p.Spec, old.Spec) {
					p.Generation = old.Generation + 1
				}
			},
			Validate:       d.validateNetworkPolicy,
			ValidateUpdate: d.validateNetworkPolicyUpdate,
			Warn:           warnNetworkPolicy,
		}.Rules(),
		Table: networkPolicyTable(),
	}
}

func defaultNetworkPolicy(p *networkingv1.NetworkPolicy) {
	s := &p.Spec
	if len(s.PolicyTypes) == 0 {
		s.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(s.Egress) > 0 {
			s.PolicyTypes = append(s.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	defaultPorts := func(ports []networkingv1.NetworkPolicyPort) {
		for i := range ports {
			rules.DefaultPtr(&ports[i].Protocol, corev1.ProtocolTCP)
		}
	}
	for i := range s.Ingress {
		defaultPorts(s.Ingress[i].Ports)
	}
	for i := range s.Egress {
		defaultPorts(s.Egress[i].Ports)
	}
}

func warnNetworkPolicy(_ context.Context, p, _ *networkingv1.NetworkPolicy) []string {
	var out []string
	peers := func(peers []networkingv1.NetworkPolicyPeer, path *field.Path) {
		for i := range peers {
			b := peers[i].IPBlock
			if b == nil {
				continue
			}
			at := path.Index(i).Child("ipBlock")
			out = append(out, validation.GetWarningsForCIDR(at.Child("cidr"), b.CIDR)...)
			for k, except := range b.Except {
				out = append(out, validation.GetWarningsForCIDR(at.Child("except").Index(k), except)...)
			}
		}
	}
	for i := range p.Spec.Ingress {
		peers(p.Spec.Ingress[i].From, specPath.Child("ingress").Index(i).Child("from"))
	}
	for i := range p.Spec.Egress {
		peers(p.Spec.Egress[i].To, specPath.Child("egress").Index(i).Child("to"))
	}
	return out
}
