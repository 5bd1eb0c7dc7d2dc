package discovery

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/api/builtin/rulestest"
)

func TestEndpointSlices(t *testing.T) {
	k := rulestest.Of(t, Resources(Deps{}), "endpointslices", `
metadata: {name: s}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1]}]
ports: [{port: 80}]
`)
	k.Create(t, []rulestest.Case{
		{Name: "family", Edit: `{endpoints: [{addresses: ["fd00::1"]}]}`, Want: []string{"endpoints[0].addresses Invalid"}},
		{Name: "type", Edit: `{addressType: Foo}`, Want: []string{"addressType NotSupported"}},
		{Name: "names", Edit: `{addressType: FQDN, endpoints: [{addresses: [a.example.com]}]}`},
		{Name: "ports", Edit: `{ports: [{port: 80}, {port: 81}]}`, Want: []string{"ports[1].name Duplicate"}},
		{Name: "loopback", Edit: `{endpoints: [{addresses: [127.0.0.1]}]}`, Want: []string{"endpoints[0].addresses[0] Invalid"}},
	})
	k.Update(t, "", []rulestest.Case{
		{Name: "type", Edit: `{addressType: IPv6, endpoints: []}`, Want: []string{"addressType Invalid"}},
	})
	for _, test := range []struct {
		name, edit string
		want       int64
	}{
		{"nothing", "", 1},
		{"annotations", `{metadata: {annotations: {a: b}}}`, 1},
		{"labels", `{metadata: {labels: {a: b}}}`, 2},
		{"endpoints", `{endpoints: []}`, 2},
	} {
		obj, _ := k.Updated(t, "", test.edit)
		if got := obj.GetGeneration(); got != test.want {
			t.Errorf("%s: generation %d, want %d", test.name, got, test.want)
		}
	}
}
