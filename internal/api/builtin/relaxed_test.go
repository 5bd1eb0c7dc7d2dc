package builtin

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kanzen-io/kanzen/internal/api/builtin/core"
	"github.com/kanzen-io/kanzen/internal/api/builtin/discovery"
	"github.com/kanzen-io/kanzen/internal/api/builtin/networking"
	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/features"
)

// TestAddressForms holds addresses with leading zeros, which were valid before StrictIPCIDRValidation, against both settings of it.
func TestAddressForms(t *testing.T) {
	for _, c := range []struct{ plural, base, edit, strict string }{
		{"nodes", `metadata: {name: a}`, `{spec: {podCIDR: 10.0.0.0/08, podCIDRs: [10.0.0.0/08]}}`, "spec.podCIDRs[0] Invalid"},
		{"endpoints", `metadata: {name: a, namespace: b}`, `{subsets: [{addresses: [{ip: 10.0.0.01}]}]}`, "subsets[0].addresses[0].ip Invalid"},
		{"services", `{metadata: {name: a, namespace: b}, spec: {ports: [{port: 80}]}}`, `{spec: {externalIPs: [10.0.0.01]}}`, "spec.externalIPs[0] Invalid"},
		{"pods", `{metadata: {name: a, namespace: b}, spec: {containers: [{name: c, image: i}]}}`, `{spec: {hostAliases: [{ip: 10.0.0.01}]}}`, "spec.hostAliases[0].ip Invalid"},
		{"endpointslices", `{metadata: {name: a, namespace: b}, addressType: IPv4, endpoints: []}`, `{endpoints: [{addresses: [10.0.0.01]}]}`, "endpoints[0].addresses[0] Invalid"},
		{"networkpolicies", `{metadata: {name: a, namespace: b}, spec: {podSelector: {}}}`, `{spec: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/08}}]}]}}`, "spec.egress[0].to[0].ipBlock.cidr Invalid"},
	} {
		rulestest.Of(t, withGate(t, features.StrictIPCIDRValidation, true), c.plural, c.base).Create(t, []rulestest.Case{{Name: c.plural, Edit: c.edit, Want: []string{c.strict}}})
		rulestest.Of(t, withGate(t, features.StrictIPCIDRValidation, false), c.plural, c.base).Create(t, []rulestest.Case{{Name: c.plural + ", gate off", Edit: c.edit}})
	}
}

// TestServiceNames holds names that begin with a digit against RelaxedServiceNameValidation, which is locked to true in 1.37.
func TestServiceNames(t *testing.T) {
	gates := emulating(t, "1.35", features.RelaxedServiceNameValidation+"=false")
	service := rulestest.Of(t, core.Resources(withGates(gates)), "services", `{metadata: {name: a, namespace: b}, spec: {ports: [{port: 80}]}}`)
	service.Create(t, []rulestest.Case{{Name: "service", Edit: `{metadata: {name: 1a}}`, Want: []string{"metadata.name Invalid"}}})
	ingress := rulestest.Of(t, networking.Resources(networking.Deps{Gates: gates}), "ingresses", `{metadata: {name: a, namespace: b}, spec: {defaultBackend: {service: {name: a, port: {number: 80}}}}}`)
	ingress.Create(t, []rulestest.Case{{Name: "ingress", Edit: `{spec: {defaultBackend: {service: {name: 1a}}}}`, Want: []string{"spec.defaultBackend.service.name Invalid"}}})
}

func withGate(t *testing.T, gate string, on bool) []*engine.Resource {
	word := map[bool]string{true: "=true", false: "=false"}[on]
	gates, err := features.Parse([]string{gate + word}, features.Now())
	if err != nil {
		t.Fatal(err)
	}
	return append(append(core.Resources(withGates(gates)), networking.Resources(networking.Deps{Gates: gates})...), discovery.Resources(discovery.Deps{Gates: gates})...)
}

func withGates(gates features.Set) core.Deps {
	var d core.Deps
	d.Pods.Gates = gates
	return d
}

func emulating(t *testing.T, minor, gate string) features.Set {
	v := version.MustParse(minor)
	gates, err := features.Parse([]string{gate}, features.At{Emulated: v, Compatible: v})
	if err != nil {
		t.Fatal(err)
	}
	return gates
}
