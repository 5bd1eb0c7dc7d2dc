package discovery

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
)

// customGroups returns n custom resources, each in its own group.
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

// BenchmarkNew measures a change of one CRD out of 5,000.
func BenchmarkNew(b *testing.B) {
	gvs := customGroups(5000)
	b.ReportAllocs()
	for b.Loop() {
		New(addresses, gvs)
	}
}

// BenchmarkAggregated measures the first discovery request after that.
func BenchmarkAggregated(b *testing.B) {
	gvs := customGroups(5000)
	b.ReportAllocs()
	for b.Loop() {
		New(addresses, gvs).apisAggregated.json()
	}
}
