package discovery

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// customGroups is n custom resources, each in a group of its own.
func customGroups(n int) []GroupVersion {
	gvs := make([]GroupVersion, n)
	for i := range gvs {
		gv := schema.GroupVersion{Group: fmt.Sprintf("g%d.example.test", i), Version: "v1"}
		r := &engine.Resource{Plural: "cogs", Singular: "cog", Kind: "Cog", Prefix: "x", Hub: gv}
		gvs[i] = GroupVersion{
			GroupVersion: gv, GroupPriority: CustomGroupPriority, VersionPriority: CustomVersionPriority, Custom: true,
			Resources: func() []*engine.Resource { return []*engine.Resource{r} },
		}
	}
	return gvs
}

// BenchmarkNew is what a change of one CRD costs where there are 5,000.
func BenchmarkNew(b *testing.B) {
	gvs := customGroups(5000)
	b.ReportAllocs()
	for b.Loop() {
		New(addresses, gvs)
	}
}

// BenchmarkAggregated is what the first discovery request after that costs.
func BenchmarkAggregated(b *testing.B) {
	gvs := customGroups(5000)
	b.ReportAllocs()
	for b.Loop() {
		New(addresses, gvs).apisAggregated.json()
	}
}
