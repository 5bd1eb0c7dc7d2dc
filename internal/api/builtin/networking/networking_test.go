package networking

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

func TestIngresses(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "ingresses", `
metadata: {name: i}
spec:
  rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: s, port: {number: 80}}}}]}}]
`)
	const backend = `backend: {service: {name: s, port: {number: 80}}}`
	k.Create(t, []rulestest.Case{
		{Name: "nothing", Edit: `{spec: {rules: null}}`, Want: []string{"spec Invalid"}},
		{Name: "ports", Edit: `{spec: {rules: null, defaultBackend: {service: {name: s, port: {number: 80, name: http}}}}}`,
			Want: []string{"spec.defaultBackend Invalid"}},
		{Name: "path", Edit: `{spec: {rules: [{http: {paths: [{path: a//b, pathType: Exact, ` + backend + `}]}}]}}`,
			Want: []string{"spec.rules[0].http.paths[0].path Invalid"}},
		{Name: "path type", Edit: `{spec: {rules: [{http: {paths: [{path: /, pathType: Foo, ` + backend + `}]}}]}}`,
			Want: []string{"spec.rules[0].http.paths[0].pathType NotSupported"}},
		{Name: "host", Edit: `{spec: {rules: [{host: 10.0.0.1}]}}`, Want: []string{"spec.rules[0].host Invalid"}},
		{Name: "class twice", Edit: `{metadata: {annotations: {kubernetes.io/ingress.class: a}}, spec: {ingressClassName: b}}`,
			Want: []string{"annotations.kubernetes.io/ingress.class Invalid"}},
	})
}

func TestNetworkPolicies(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "networkpolicies", `
metadata: {name: p}
spec: {podSelector: {}, ingress: [{ports: [{port: 80}], from: [{podSelector: {}}]}]}
`)
	k.Create(t, []rulestest.Case{
		{Name: "no peer", Edit: `{spec: {ingress: [{from: [{}]}]}}`, Want: []string{"spec.ingress[0].from[0] Required"}},
		{Name: "block and pods", Edit: `{spec: {ingress: [{from: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}]}}`,
			Want: []string{"spec.ingress[0].from[0] Forbidden"}},
		{Name: "exception outside", Edit: `{spec: {ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}]}]}}`,
			Want: []string{"spec.ingress[0].from[0].ipBlock.except[0] Invalid"}},
		{Name: "end port", Edit: `{spec: {ingress: [{ports: [{port: http, endPort: 90}]}]}}`,
			Want: []string{"spec.ingress[0].ports[0].endPort Invalid"}},
	})
}

func TestServiceCIDRs(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "servicecidrs", `{metadata: {name: c}, spec: {cidrs: [10.0.0.0/24]}}`)
	k.Create(t, []rulestest.Case{
		{Name: "host bits", Edit: `{spec: {cidrs: [10.0.0.1/24]}}`, Want: []string{"spec.cidrs[0] Invalid"}},
		{Name: "one family twice", Edit: `{spec: {cidrs: [10.0.0.0/24, 10.0.1.0/24]}}`, Want: []string{"spec.cidrs Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "second family", Edit: `{spec: {cidrs: [10.0.0.0/24, "fd00::/112"]}}`},
		{Name: "changed", Edit: `{spec: {cidrs: [10.0.1.0/24]}}`, Want: []string{"spec.cidrs[0] Invalid"}},
	})
}
