package peers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"github.com/kanzen-io/kanzen/internal/api/peers"
)

// TestMerge merges what servers at random serve as kube-apiserver does.
func TestMerge(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		all := map[string][]apidiscoveryv2.APIGroupDiscovery{}
		for n := range 1 + random.IntN(4) {
			all[fmt.Sprint("server", (n*7)%4)] = served(random)
		}
		local, others := all["server0"], map[string][]apidiscoveryv2.APIGroupDiscovery{}
		for name, groups := range all {
			if name != "server0" {
				others[name] = groups
			}
		}
		want, got := text(t, aggregated.TestMergeResources("server0", local, others)), text(t, peers.MergeAll("server0", all))
		if got != want {
			t.Fatalf("seed %d: of %s\n%s\nkube-apiserver:\n%s", seed, text(t, all), got, want)
		}
	}
}

// served is what a server at random serves: some of few, mostly in the same order.
func served(random *rand.Rand) (groups []apidiscoveryv2.APIGroupDiscovery) {
	some := func(of ...string) (out []string) {
		for _, name := range of {
			if random.IntN(4) > 0 {
				out = append(out, name)
			}
		}
		if random.IntN(6) == 0 {
			random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		}
		return out
	}
	for _, g := range some("apps", "batch", "policy") {
		group := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g}}
		for _, v := range some("v2", "v1", "v1beta1") {
			version := apidiscoveryv2.APIVersionDiscovery{Version: v, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
			for _, r := range some("a", "b", "c") {
				resource := apidiscoveryv2.APIResourceDiscovery{Resource: r, Verbs: some("get", "list", "create")}
				for _, s := range some("status", "scale") {
					resource.Subresources = append(resource.Subresources, apidiscoveryv2.APISubresourceDiscovery{Subresource: s, Verbs: some("get", "patch")})
				}
				version.Resources = append(version.Resources, resource)
			}
			group.Versions = append(group.Versions, version)
		}
		groups = append(groups, group)
	}
	return groups
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
