package methods

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/wire/egress"
	"github.com/kanzen-io/kanzen/internal/wire/egress/egresstest"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/utils/clock"
)

// An issuer in a network with a proxy requires that proxy.
func TestDialIssuer(t *testing.T) {
	with, err := egress.Load(egresstest.Write(t, map[string]string{"cluster": "{proxyProtocol: Direct}"}), prometheus.NewRegistry(), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		egress  *egress.Selector
		network apiserver.EgressSelectorType
		dials   bool
		want    string
	}{
		{nil, "", false, ""},
		{with, "", false, ""},
		{with, apiserver.EgressSelectorCluster, true, ""},
		{with, apiserver.EgressSelectorControlPlane, false, `oidc: egress lookup for "controlplane" is not configured`},
		{nil, apiserver.EgressSelectorCluster, false, `oidc: egress lookup required with egress selector type "cluster"`},
	} {
		dial, err := (&Set{Config: Config{Egress: c.egress}}).dialIssuer(c.network)
		if (dial != nil) != c.dials || (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%q: %v, want %q", c.network, err, c.want)
		}
	}
}
