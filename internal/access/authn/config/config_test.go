package config

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
)

// TestEgress allows the networks that there are, and none without the feature.
func TestEgress(t *testing.T) {
	const (
		unsupported = "egress selector is not supported when StructuredAuthenticationConfigurationEgressSelector feature gate is disabled"
		unknown     = "egress selector must be either controlplane or cluster"
	)
	for _, c := range []struct {
		network apiserver.EgressSelectorType
		off     bool
		want    []string
	}{
		{"", false, nil},
		{"", true, nil},
		{apiserver.EgressSelectorCluster, false, nil},
		{apiserver.EgressSelectorCluster, true, []string{unsupported}},
		{"moon", false, []string{unknown}},
		{"moon", true, []string{unsupported, unknown}},
	} {
		errs := Rules{NoEgress: c.off}.validateIssuer(&apiserver.Issuer{
			URL: "https://issuer", Audiences: []string{"a"}, EgressSelectorType: c.network,
		}, field.NewPath("issuer"))
		var got []string
		for _, err := range errs {
			got = append(got, err.Detail)
		}
		if strings.Join(got, "; ") != strings.Join(c.want, "; ") {
			t.Errorf("%q, off %t: %q, not %q", c.network, c.off, got, c.want)
		}
	}
}
